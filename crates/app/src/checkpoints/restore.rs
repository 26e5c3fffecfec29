//! Restore: the sandbox sees what it saw then, in one commit.

use stead_domain::checkpoint::{CheckpointReason, OnRunning, RestoreRequest, Stack};
use stead_domain::definition::WorkspaceAccess;
use stead_domain::environment::Environment;
use stead_domain::ids::{CheckpointId, EnvironmentId, LayerId};
use stead_domain::{Code, Error, Result};
use stead_store::{checkpoints, environments};

use super::seal::{Wanted, act, locked, unchanged};
use super::unknown;
use crate::audit::record;
use crate::idempotency::{self, Claim, Outcome};
use crate::leases::hold_in;
use crate::processes::{SETUP_GONE, check_usable};
use crate::{App, Entered};

impl App {
    pub async fn restore_checkpoint(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        from: CheckpointId,
        request: RestoreRequest,
    ) -> Result<Outcome<Environment>> {
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.restore_to_the_end(entered, id, from, request).await }).await
    }

    async fn restore_to_the_end(
        &self,
        entered: Entered,
        id: EnvironmentId,
        from: CheckpointId,
        request: RestoreRequest,
    ) -> Result<Outcome<Environment>> {
        if let Some(reply) = self.answered_before(&entered.caller).await? {
            return Ok(Outcome::Again(reply));
        }
        let environment = self.get_environment(&entered, id).await?;
        self.find_checkpoint(&entered, from).await?;
        if environment.status.is_live() {
            check_usable(&environment)?;
        }
        let right = self.enter(&entered, &environment).await?;
        let _guard = locked(self, id).await;
        if let Some(reply) = self.answered_before(&entered.caller).await? {
            return Ok(Outcome::Again(reply));
        }
        self.get_environment(&entered, id).await?;
        let checkpoint = self.find_checkpoint(&entered, from).await?;
        let (environment, ground) = self.awake_or_not(&entered, id).await?;
        check_usable(&environment)?;
        let (keeper, place) = (self.keeper(&environment)?, ground.place()?);
        if let Some(mount) = environment.spec.bound_workspace() {
            let message = format!("the workspace of environment `{}` is `{}`, which is no checkpoint's", environment.name, mount.source);
            return Err(
                Error::new(Code::CheckpointUnsupported, message).suggestion("restore it in an environment with a workspace of its own")
            );
        }
        if checkpoint.host_id != environment.runtime.host {
            return Err(Error::new(Code::EnvironmentOnOtherHost, format!("checkpoint `{from}` lies on another host"))
                .suggestion("restore one that lies on this host: `stead checkpoint list` shows them"));
        }
        let on_running = match request.on_running {
            Some(OnRunning::Busy) => OnRunning::Busy,
            _ => OnRunning::Stop,
        };
        if request.save {
            self.check_sealable(&environment, place).await?;
        }
        let _stilled = self.still(&environment, place, on_running).await?;
        let kept = self.layers.read().await;
        let mut environment = self.get_environment(&entered, id).await?;
        let mut saved_now = None;
        if request.save {
            let target = CheckpointId::new(&self.context);
            let caller = Some(entered.caller.clone());
            let wanted = Wanted { id: target, name: None, reason: CheckpointReason::BeforeRestore, caller, right: None };
            let saved = self.seal(&environment, &keeper, wanted).await?;
            self.bring_to_disk_behind(saved);
            saved_now = Some(environment);
            environment = self.get_environment(&entered, id).await?;
        }
        let access = environment.spec.sandbox.as_ref().and_then(|sandbox| sandbox.workspace_access);
        let beside = self.premises(&environment)?;
        let left = environment.stack.upper_of(environment.sandbox_id);
        let (context, sealer, project, office) = (self.context.clone(), self.sealer.clone(), entered.project, self.office());
        let written = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    if let Claim::Answered(reply) = idempotency::claim(unit, &context, &*sealer, &entered.caller).await? {
                        return Ok::<_, Error>(Outcome::Again(reply));
                    }
                    let checkpoint = checkpoints::lock(unit, project, from).await?.ok_or_else(|| unknown(from))?;
                    let sandbox = unchanged(unit, &environment).await?;
                    hold_in(unit, &office, &right).await?;
                    let stack = Stack { upper: Some(LayerId::new(&context)), below: checkpoint.layers.clone() };
                    checkpoints::set_stack(unit, sandbox.id, &stack, Some(checkpoint.id), context.now()).await?;
                    // A script that had not run then has to run again.
                    let set_up = checkpoint.setup_version.filter(|_| checkpoint.environment_id == id);
                    environments::set_setup_version(unit, id, set_up.or(Some(SETUP_GONE))).await?;
                    record(unit, &context, &entered.caller, act(&environment, "environment.restore", &checkpoint)).await?;
                    let restored = environments::find_any(unit, id).await?.ok_or_else(|| crate::environments::unknown(id))?;
                    idempotency::answer(unit, &context, &entered.caller, 200, &restored).await?;
                    Ok(Outcome::New(restored))
                })
            })
            .await?;
        drop(kept);
        if let Some(environment) = saved_now {
            self.drop_beyond_behind(&environment);
        }
        // Not before: until then nothing was restored that they would be in the way of.
        if matches!(written, Outcome::New(_)) && access == Some(WorkspaceAccess::CopyOnWrite) {
            place.drop_changes(&beside, None).await?;
        }
        // What was written since the last checkpoint is nobody's now.
        self.drop_layers_behind(vec![left]);
        Ok(written)
    }

    /// How a request with the same key was answered before.
    pub(super) async fn answered_before(&self, caller: &stead_domain::principal::Caller) -> Result<Option<idempotency::Reply>> {
        if caller.idempotency.is_none() {
            return Ok(None);
        }
        let (context, sealer, caller) = (self.context.clone(), self.sealer.clone(), caller.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    if !idempotency::is_known(unit, &caller, context.now()).await? {
                        return Ok(None);
                    }
                    match idempotency::claim(unit, &context, &*sealer, &caller).await? {
                        Claim::Answered(reply) => Ok(Some(reply)),
                        _ => Ok(None),
                    }
                })
            })
            .await
    }
}
