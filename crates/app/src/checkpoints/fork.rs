//! Fork: new environments that begin with the files of a checkpoint, and with nothing else of the first one's but its definition.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use stead_domain::checkpoint::{Checkpoint, CheckpointReason, ForkRequest, MOST_FORKS, OnRunning, Stack};
use stead_domain::definition::PackagePolicy;
use stead_domain::environment::{BoundToType, CleanupStatus, Environment, EnvironmentStatus, Runtime};
use stead_domain::ids::{CheckpointId, EnvironmentId, SandboxId};
use stead_domain::sandbox::Sandbox;
use stead_domain::{Code, Error, Result, names};
use stead_store::{checkpoints, environments};
use utoipa::ToSchema;

use super::seal::{Wanted, locked};
use super::unknown;
use crate::environments::create::{Draft, Made, insert};
use crate::idempotency::{self, Claim, Outcome};
use crate::processes::check_usable;
use crate::{App, AskedBy, Entered};

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Forks {
    pub items: Vec<Environment>,
}

impl App {
    pub async fn fork_environment(&self, entered: &Entered, id: EnvironmentId, request: ForkRequest) -> Result<Outcome<Forks>> {
        let count = request.count.unwrap_or(1);
        let checked = match &request.name {
            _ if !(1..=MOST_FORKS).contains(&count) => Err(Error::field("count", format!("must be between 1 and {MOST_FORKS}"))),
            Some(name) => names::check_name("name", name),
            None => Ok(()),
        };
        if let Err(error) = checked {
            return Err(self.unless_unknown(entered, id, error).await);
        }
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.fork_to_the_end(entered, id, request, count).await }).await
    }

    async fn fork_to_the_end(&self, entered: Entered, id: EnvironmentId, request: ForkRequest, count: u32) -> Result<Outcome<Forks>> {
        if let Some(reply) = self.answered_before(&entered.caller).await? {
            return Ok(Outcome::Again(reply));
        }
        let (source, _) = self.awake_or_not(&entered, id).await?;
        check_usable(&source)?;
        let keeper = self.keeper(&source)?;
        if let Some(mount) = source.spec.bound_workspace() {
            let message =
                format!("the workspace of environment `{}` is `{}`: a fork would write to the same files", source.name, mount.source);
            return Err(Error::new(Code::CheckpointUnsupported, message).suggestion(
                "make an environment with a workspace of its own (`stead env create`) and copy the files there with `stead cp`",
            ));
        }
        let asked_for = request.checkpoint_id;
        let checkpoint = match asked_for {
            Some(from) => self.find_checkpoint(&entered, from).await?,
            None => {
                let on_running = request.on_running.unwrap_or(OnRunning::Busy);
                self.checkpoint_of_now(&entered, id, on_running, CheckpointReason::Fork).await?
            }
        };
        if checkpoint.host_id != source.runtime.host {
            return Err(Error::new(Code::EnvironmentOnOtherHost, format!("checkpoint `{}` lies on another host", checkpoint.id))
                .suggestion("fork it through a server on that host"));
        }
        // Its layers stay until they are written down as these environments' own.
        let _kept = self.layers.read().await;
        let mut drafts = self.draft_forks(&entered, &source, &checkpoint, &request, count).await?;
        // Held from before the rows are visible, so that the reconciler leaves them to us.
        let mut guards = Vec::new();
        let mut made = Vec::new();
        for draft in &mut drafts {
            guards.push(locked(self, draft.environment.id).await);
            made.push(self.make_beforehand(draft, false).await);
        }
        if drafts.iter().any(|draft| draft.made.is_none()) {
            self.unmake_all(made).await;
            return Err(Error::new(Code::ProviderFailed, "the sandboxes of the forks could not be made")
                .suggestion("`stead provider check` says more"));
        }
        if let Some(Some(first)) = made.first()
            && let Err(error) = first.secure().await
        {
            self.unmake_all(made).await;
            return Err(error);
        }
        if source.spec.sandbox.as_ref().and_then(|sandbox| sandbox.package_policy) == Some(PackagePolicy::System) {
            for draft in &drafts {
                if let Err(error) = keeper.layers()?.forget_identity(draft.sandbox.id, &draft.sandbox.stack).await {
                    self.unmake_all(made).await;
                    return Err(error.into());
                }
            }
        }
        let (from, set_up) = (checkpoint.id, checkpoint.environment_id == id && checkpoint.setup_version == Some(source.spec_version));
        let written = self.write_forks(entered, drafts, from, set_up).await;
        if !matches!(written, Ok(Outcome::New(_))) {
            self.unmake_all(made).await;
        }
        if asked_for.is_none() {
            self.drop_beyond_behind(&source);
        }
        written
    }

    async fn write_forks(&self, entered: Entered, drafts: Vec<Draft>, from: CheckpointId, set_up: bool) -> Result<Outcome<Forks>> {
        let (context, sealer) = (self.context.clone(), self.sealer.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    if let Claim::Answered(reply) = idempotency::claim(unit, &context, &*sealer, &entered.caller).await? {
                        return Ok(Outcome::Again(reply));
                    }
                    checkpoints::lock(unit, entered.project, from).await?.ok_or_else(|| unknown(from))?;
                    let mut items = Vec::new();
                    for draft in drafts {
                        let id = draft.environment.id;
                        insert(unit, &context, &entered, draft).await?;
                        if set_up {
                            environments::set_setup_version(unit, id, Some(1)).await?;
                        }
                        items.push(environments::find_any(unit, id).await?.ok_or_else(|| crate::environments::unknown(id))?);
                    }
                    let forks = Forks { items };
                    idempotency::answer(unit, &context, &entered.caller, 201, &forks).await?;
                    Ok(Outcome::New(forks))
                })
            })
            .await
    }

    async fn unmake_all(&self, made: Vec<Option<Made>>) {
        for made in made.into_iter().flatten() {
            self.unmake(made).await;
        }
    }

    /// What is there now, sealed.
    pub(super) async fn checkpoint_of_now(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        on_running: OnRunning,
        reason: CheckpointReason,
    ) -> Result<Checkpoint> {
        // Nobody's work is stopped by somebody else's copy of it.
        let environment = self.awake_or_not(entered, id).await?.0;
        check_usable(&environment)?;
        self.knock(entered, &environment).await?;
        let _guard = locked(self, id).await;
        let (environment, ground) = self.awake_or_not(entered, id).await?;
        check_usable(&environment)?;
        let (keeper, place) = (self.keeper(&environment)?, ground.place()?);
        self.check_sealable(&environment, place).await?;
        let stilled = self.still(&environment, place, on_running).await?;
        let environment = self.get_environment(entered, id).await?;
        let caller = Some(entered.caller.clone());
        let wanted = Wanted { id: CheckpointId::new(&self.context), name: None, reason, caller, right: None };
        if stilled.runs {
            let checkpoint = self.seal_frozen(&environment, place, &keeper, &stilled, wanted).await?;
            self.bring_to_disk_behind(checkpoint.clone());
            return Ok(checkpoint);
        }
        let _kept = self.layers.read().await;
        if let (None, Some(present)) = (self.layer_to_seal(&environment, &keeper).await?, environment.runtime.checkpoint_id)
            && let Ok(checkpoint) = self.find_checkpoint(entered, present).await
        {
            // Nothing was written since.
            return Ok(checkpoint);
        }
        let checkpoint = self.seal(&environment, &keeper, wanted).await?;
        self.bring_to_disk_behind(checkpoint.clone());
        Ok(checkpoint)
    }

    async fn draft_forks(
        &self,
        entered: &Entered,
        source: &Environment,
        checkpoint: &Checkpoint,
        request: &ForkRequest,
        count: u32,
    ) -> Result<Vec<Draft>> {
        let (context, now) = (&self.context, self.context.now());
        let serving = self.providers.serving(source.provider)?;
        let mut spec = source.spec.clone();
        let asked_by = AskedBy::caller(&entered.caller, Some(&source.spec));
        let posture = self.check_posture(&mut spec, source.provider, source.allow_unenforced, asked_by).await?;
        // The same repositories, in the same project.
        let grant = self.grant_of(source.id).await?;
        let mut names = HashSet::new();
        let mut drafts = Vec::new();
        for number in 1..=count {
            let id = EnvironmentId::new(context);
            let name = match &request.name {
                Some(name) if count == 1 => name.clone(),
                Some(name) => shortened(name, &format!("-{number}")),
                None => shortened(&source.name, &format!("-{}", &id.short()[4..])),
            };
            names::check_name("name", &name)?;
            if !names.insert(names::key(&name)) {
                return Err(crate::environments::create::name_taken(&name));
            }
            spec.name = spec.name.is_some().then(|| name.clone());
            let sandbox = Sandbox {
                host_id: serving.host(),
                confirmed_in: Some(self.since.microseconds()),
                checkpoint_id: Some(checkpoint.id),
                stack: Stack { upper: None, below: checkpoint.layers.clone() },
                ..Sandbox::to_be_made(SandboxId::new(context), entered.project, serving.name(), Some(id), now)
            };
            let environment = Environment {
                id,
                project_id: entered.project,
                name,
                provider_resource_id: None,
                provider_resource_name: None,
                status: EnvironmentStatus::Provisioning,
                owned_by: Some(entered.caller.principal.to_string()),
                // Whatever the first one is bound to, this one is not.
                bound_to_type: Some(BoundToType::None).filter(|_| source.bound_to_type.is_some()),
                bound_to_id: None,
                created_by: Some(entered.caller.principal),
                updated_by: Some(entered.caller.principal),
                capabilities: serving.features(),
                spec_version: 1,
                fingerprint: spec.fingerprint(),
                spec: spec.clone(),
                runtime: Runtime { posture: posture.clone(), ..Runtime::default() },
                // Its files are those of the first one, with whatever was written there.
                contains_secrets: source.contains_secrets,
                cleanup_status: CleanupStatus::None,
                lease_expires_at: None,
                held_by: None,
                last_seen_at: None,
                last_reconciled_at: None,
                last_error: None,
                created_at: now,
                updated_at: now,
                destroyed_at: None,
                sandbox_id: sandbox.id,
                revision: 1,
                stack: sandbox.stack.clone(),
                ..source.clone()
            };
            drafts.push(Draft { environment, sandbox, shared: false, made: None, grant: grant.clone() });
        }
        Ok(drafts)
    }
}

/// A name with something after it that still is one.
fn shortened(name: &str, after: &str) -> String {
    let room = names::LONGEST.saturating_sub(after.len());
    let mut end = name.len().min(room);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{after}", &name[..end])
}
