//! Create: the record first, then the place, then the reply. A crash between leaves a row that the reconciler finishes. What costs next to
//! nothing to make is made first, and one commit tells of both: a crash between leaves something without a row, which the janitor removes.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use stead_domain::checkpoint::Stack;
use stead_domain::definition::{Spec, provider_mismatch, template};
use stead_domain::environment::{
    BoundToType, CleanupStatus, DefinitionVersion, Environment, EnvironmentMode, EnvironmentStatus, Lifetime, Purpose, RetentionPolicy,
    Runtime, Scope, TemplateId,
};
use stead_domain::ids::{EnvironmentId, SandboxId};
use stead_domain::principal::Caller;
use stead_domain::provider::ProviderName;
use stead_domain::repository::RepositoryGrant;
use stead_domain::sandbox::{Sandbox, SandboxStatus};
use stead_domain::tags::{self, Tags};
use stead_domain::{Code, Context, Error, Result, names};
use stead_store::{StoreError, Unit, environments, sandboxes, versions};
use tokio::sync::OwnedMutexGuard;
use utoipa::ToSchema;

use crate::audit::{Act, record};
use crate::environments::{begin_destroying, unknown};
use crate::idempotency::{self, Claim, Outcome};
use crate::reconcile::{mark_made, resource_name};
use crate::{App, AskedBy, Entered, NewSandbox, Provider, Resource};

/// How often, and how long after the last attempt, something that was made in vain is removed again.
const ATTEMPTS: usize = 60;
const AGAIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEnvironment {
    /// Made up when it is left out.
    #[schema(max_length = 128)]
    pub name: Option<String>,
    pub scope: Option<Scope>,
    /// `local` when neither this nor the definition names one.
    pub provider: Option<ProviderName>,
    pub environment_mode: Option<EnvironmentMode>,
    pub purpose: Option<Purpose>,
    /// The caller when it is left out.
    #[schema(max_length = 256)]
    pub owned_by: Option<String>,
    pub bound_to_type: Option<BoundToType>,
    #[schema(max_length = 256)]
    pub bound_to_id: Option<String>,
    pub lifetime: Option<Lifetime>,
    pub template_id: Option<TemplateId>,
    /// The definition, whole or in part.
    pub spec: Option<Spec>,
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub tags: Option<Tags>,
    pub retention_policy: Option<RetentionPolicy>,
    /// A sandbox that is there already; it outlives the environment.
    pub sandbox_id: Option<SandboxId>,
    /// Accept a posture that the provider does not enforce.
    pub allow_unenforced: Option<bool>,
}

pub(crate) fn name_taken(name: &str) -> Error {
    Error::new(Code::AlreadyExists, format!("the name `{name}` is taken"))
        .detail("field", "name")
        .suggestion("choose another name, or delete the environment that has it")
}

pub(crate) fn check_reference(field: &str, value: Option<&String>) -> Result<()> {
    match value {
        Some(value) => names::check_text(field, value, 256),
        None => Ok(()),
    }
}

/// The one provider that request and definition name.
fn settle_provider(request: Option<ProviderName>, spec: &Spec) -> Result<ProviderName> {
    let defined = spec.named_provider()?;
    if let (Some(request), Some(defined)) = (request, defined)
        && request != defined
    {
        let field = if spec.kind.is_some() { "spec.kind" } else { "spec.provider" };
        return Err(provider_mismatch("provider", request, field, defined));
    }
    Ok(request.or(defined).unwrap_or(ProviderName::Local))
}

impl App {
    pub async fn create_environment(&self, entered: &Entered, new: NewEnvironment) -> Result<Outcome<Environment>> {
        if let Some(name) = &new.name {
            names::check_name("name", name)?;
        }
        check_reference("owned_by", new.owned_by.as_ref())?;
        check_reference("bound_to_id", new.bound_to_id.as_ref())?;
        tags::check(new.tags.as_ref().unwrap_or(&Tags::new()))?;
        let app = self.clone();
        let entered = entered.clone();
        self.detached(async move { app.create_to_the_end(entered, new).await }).await
    }

    async fn create_to_the_end(&self, entered: Entered, new: NewEnvironment) -> Result<Outcome<Environment>> {
        let asked_by = AskedBy::caller(&entered.caller, None);
        let mut draft = self.draft(&entered, new, asked_by).await?;
        let id = draft.environment.id;
        // Held from before the row is visible, so that the reconciler leaves it to us.
        let guard = self.locks.lock(&id.to_string()).await;
        // What a repetition is told is written with the record, so the sandbox is there for good before that.
        let for_good = entered.caller.idempotency.is_some();
        let made = self.make_beforehand(&mut draft, for_good).await;
        let (app, context, sealer, caller) = (self.clone(), self.context.clone(), self.sealer.clone(), entered.caller.clone());
        let name = draft.environment.name.clone();
        let written = self.store.write(move |unit| {
            Box::pin(async move {
                let claim = idempotency::claim(unit, &context, &*sealer, &entered.caller).await?;
                let (mut ready, mut sandbox) = (None, None);
                if matches!(claim, Claim::New) {
                    idempotency::note_target(unit, &entered.caller, &id.to_string()).await?;
                    let is_made = draft.made.is_some();
                    sandbox = Some(insert(unit, &context, &entered, draft).await?);
                    if is_made {
                        let environment = app.dress(environments::find_any(unit, id).await?.ok_or_else(|| unknown(id))?);
                        idempotency::answer(unit, &context, &entered.caller, 201, &environment).await?;
                        ready = Some(environment);
                    }
                }
                Ok::<_, Error>((claim, ready, sandbox))
            })
        });
        // Else side by side; the reply waits for both. A loss of power between them leaves a record without a sandbox that nobody was told
        // of, and the janitor says so of it.
        let (written, secured) = tokio::join!(written, async {
            match &made {
                Some(made) if !for_good => made.secure().await,
                _ => Ok(()),
            }
        });
        if let Some(made) = made
            && !matches!(written, Ok((Claim::New, ..)))
        {
            self.unmake(made).await;
        }
        match written? {
            (Claim::Answered(reply), ..) => Ok(Outcome::Again(reply)),
            (Claim::New, Some(environment), _) => match secured {
                Ok(()) => Ok(Outcome::New(environment)),
                Err(error) => Err(self.undo_creation(id, &caller, error).await),
            },
            (Claim::New, None, Some(sandbox)) => match self.provision_in(id, &name, sandbox, Some(&caller)).await {
                Ok(environment) => Ok(Outcome::New(environment)),
                Err(error) => Err(self.undo_creation(id, &caller, error).await),
            },
            (Claim::New, None, None) => Err(Error::internal("a creation wrote no sandbox")),
            (Claim::Unfinished(target), ..) => {
                drop(guard);
                let first: EnvironmentId = target.and_then(|target| target.parse().ok()).ok_or_else(idempotency::in_progress)?;
                self.finish_creation(first, caller).await
            }
        }
    }

    /// Makes the sandbox of a draft before there is a row, if that is cheap. When it fails the record comes first as for any other, and says
    /// why. Unless it is made `for_good`, the caller has it secured.
    pub(crate) async fn make_beforehand(&self, draft: &mut Draft, for_good: bool) -> Option<Made> {
        let provider = Arc::clone(self.providers.serving(draft.sandbox.provider).ok()?);
        if draft.shared || !provider.is_made_at_once() {
            return None;
        }
        let sandbox = draft.sandbox.id;
        // Whoever finds it without a row leaves it alone as long as this is held.
        let guard = self.locks.lock(&sandbox.to_string()).await;
        let name = resource_name(&draft.environment.name, draft.environment.id);
        let request = NewSandbox { id: sandbox, name };
        let made = if for_good { provider.create(&request).await } else { provider.make_at_once(&request).await };
        draft.made = made.ok();
        if draft.made.is_some() {
            draft.environment.status = EnvironmentStatus::Ready;
            draft.environment.last_reconciled_at = Some(self.context.now());
        }
        Some(Made { provider, sandbox, _guard: guard })
    }

    /// What was made got no row, or nobody knows whether it did.
    pub(crate) async fn unmake(&self, made: Made) {
        let Err(error) = self.remove_unknown(&*made.provider, made.sandbox, None).await else { return };
        tracing::warn!(sandbox = %made.sandbox, %error, "what was made in vain could not be removed yet");
        // Most likely the store is away. When it is back, nobody has to wait until the janitor has seen it twice.
        let app = self.clone();
        self.tasks.spawn(async move {
            for _ in 0..ATTEMPTS {
                if !app.pause(AGAIN).await || app.remove_unknown(&*made.provider, made.sandbox, None).await.is_ok() {
                    return;
                }
            }
        });
    }

    /// Waits for the first request if it is under way here, and goes on from where it was cut off if it is not.
    async fn finish_creation(&self, id: EnvironmentId, caller: Caller) -> Result<Outcome<Environment>> {
        let _guard = self.locks.lock(&id.to_string()).await;
        let sandbox = self.load_sandbox(&self.load(id).await?).await?;
        self.check_host(&sandbox).map_err(|_| idempotency::in_progress())?;
        let (app, context, sealer, claimant) = (self.clone(), self.context.clone(), self.sealer.clone(), caller.clone());
        let (claim, environment) = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let claim = idempotency::claim(unit, &context, &*sealer, &claimant).await?;
                    if matches!(claim, Claim::New) {
                        // It failed meanwhile and gave the key back; the next repetition is a first request.
                        return Err(idempotency::in_progress());
                    }
                    let mut environment = app.dress(environments::lock(unit, id).await?.ok_or_else(|| unknown(id))?);
                    if matches!(claim, Claim::Unfinished(_)) {
                        match environment.status {
                            EnvironmentStatus::Provisioning => {}
                            EnvironmentStatus::Failed => {
                                environment.advance(EnvironmentStatus::Provisioning)?;
                                environment.updated_at = context.now();
                                environments::save(unit, &environment).await?;
                            }
                            EnvironmentStatus::Destroying | EnvironmentStatus::Destroyed => {
                                return Err(Error::new(
                                    Code::EnvironmentDestroyed,
                                    format!("environment `{id}`, which this request made, has been deleted"),
                                )
                                .suggestion("use a new Idempotency-Key to make another one"));
                            }
                            _ => idempotency::answer(unit, &context, &claimant, 201, &environment).await?,
                        }
                    }
                    Ok((claim, environment))
                })
            })
            .await?;
        match claim {
            Claim::Answered(reply) => Ok(Outcome::Again(reply)),
            _ if environment.status == EnvironmentStatus::Provisioning => match self.provision(id, Some(&caller)).await {
                Ok(environment) => Ok(Outcome::New(environment)),
                Err(error) => Err(self.undo_creation(id, &caller, error).await),
            },
            _ => Ok(Outcome::New(environment)),
        }
    }

    /// After a provider's failure nothing half-made stays: the name is free, the key may be used again, the tombstone says why.
    async fn undo_creation(&self, id: EnvironmentId, caller: &Caller, error: Error) -> Error {
        let (context, caller, cause) = (self.context.clone(), caller.clone(), error.message().to_owned());
        let undone: Result<()> = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    if let Some(mut environment) = environments::lock(unit, id).await? {
                        environment.last_error = Some(cause);
                        begin_destroying(unit, &context, environment, Some(caller.principal)).await?;
                    }
                    idempotency::give_back(unit, &caller).await
                })
            })
            .await;
        if let Err(error) = undone.and(self.drive_locked(id).await.map(drop)) {
            tracing::warn!(environment = %id, %error, "a creation that failed could not be undone yet; the reconciler goes on with it");
        }
        error.detail("environment_id", id.to_string())
    }

    /// Everything about the new record, checked, before anything is written.
    pub(crate) async fn draft(&self, entered: &Entered, new: NewEnvironment, asked_by: AskedBy) -> Result<Draft> {
        let (context, now) = (&self.context, self.context.now());
        let id = EnvironmentId::new(context);
        let stated = new.spec.unwrap_or_default();
        let provider = settle_provider(new.provider, &stated)?;
        if provider == ProviderName::Worker {
            return Err(Error::field("provider", "`worker` environments are brought by a worker and never provisioned")
                .suggestion("attach one with `stead worker --attach DIR`"));
        }
        let serving = self.providers.serving(provider)?;
        let name = new.name.unwrap_or_else(|| format!("env-{}", id.short()));
        let base = template(new.template_id.unwrap_or(TemplateId::LocalDefault));
        let mut spec = stated.resolve(&base, provider, Some(&name))?;
        let allow_unenforced = new.allow_unenforced.unwrap_or(false);
        let posture = self.check_posture(&mut spec, provider, allow_unenforced, asked_by).await?;
        let grant = self.grant(&entered.caller, &spec, None).await?;
        let sandbox = Sandbox {
            host_id: serving.host(),
            confirmed_in: Some(self.since.microseconds()),
            ..Sandbox::to_be_made(new.sandbox_id.unwrap_or_else(|| SandboxId::new(context)), entered.project, serving.name(), Some(id), now)
        };
        let environment = Environment {
            id,
            project_id: entered.project,
            name,
            scope: new.scope,
            provider,
            provider_resource_id: None,
            provider_resource_name: None,
            status: EnvironmentStatus::Provisioning,
            environment_mode: new.environment_mode.unwrap_or(EnvironmentMode::Manual),
            lifetime: new.lifetime.unwrap_or(Lifetime::Explicit),
            purpose: new.purpose,
            owned_by: Some(new.owned_by.unwrap_or_else(|| entered.caller.principal.to_string())),
            bound_to_type: new.bound_to_type,
            bound_to_id: new.bound_to_id,
            created_by: Some(entered.caller.principal),
            updated_by: Some(entered.caller.principal),
            template_id: new.template_id,
            capabilities: serving.features(),
            spec_version: 1,
            fingerprint: spec.fingerprint(),
            spec,
            runtime: Runtime { posture, ..Runtime::default() },
            tags: new.tags.unwrap_or_default(),
            contains_secrets: false,
            cleanup_status: CleanupStatus::None,
            retention_policy: new.retention_policy.unwrap_or(RetentionPolicy::Manual),
            lease_expires_at: None,
            held_by: None,
            last_seen_at: None,
            last_reconciled_at: None,
            last_error: None,
            created_at: now,
            updated_at: now,
            destroyed_at: None,
            sandbox_id: sandbox.id,
            allow_unenforced,
            revision: 1,
            stack: Stack::default(),
        };
        Ok(Draft { environment, sandbox, shared: new.sandbox_id.is_some(), made: None, grant })
    }
}

pub(crate) struct Draft {
    pub environment: Environment,
    pub sandbox: Sandbox,
    /// Whether the sandbox is one that is there already.
    pub shared: bool,
    /// What was made beforehand.
    pub made: Option<Resource>,
    /// Which repositories it may have tokens for.
    pub grant: Option<RepositoryGrant>,
}

/// A sandbox that was made, or tried, before its row.
pub(crate) struct Made {
    provider: Arc<dyn Provider>,
    sandbox: SandboxId,
    _guard: OwnedMutexGuard<()>,
}

impl Made {
    /// Returns when a loss of power does no harm to it.
    pub(crate) async fn secure(&self) -> Result<()> {
        self.provider.secure().await.map_err(Error::from)
    }
}

/// Writes everything, and gives the sandbox that the environment is on.
pub(crate) async fn insert(unit: &mut Unit, context: &Context, entered: &Entered, draft: Draft) -> Result<Sandbox> {
    let Draft { environment, mut sandbox, shared, made, grant } = draft;
    if shared {
        sandbox = check_shared(unit, &environment, &sandbox).await?;
    } else {
        sandboxes::insert(unit, &sandbox).await?;
    }
    match environments::insert(unit, &environment).await {
        Err(StoreError::Duplicate(_)) => return Err(name_taken(&environment.name)),
        outcome => outcome?,
    }
    if grant.is_some() {
        environments::set_repository_grant(unit, environment.id, grant.as_ref()).await?;
    }
    if let Some(resource) = made {
        mark_made(unit, context, sandbox.id, resource).await?;
    }
    let version = DefinitionVersion {
        version: 1,
        fingerprint: environment.fingerprint,
        created_by: environment.created_by,
        created_at: environment.created_at,
        rolled_back_to: None,
        spec: environment.spec,
    };
    versions::insert(unit, environment.id, &version).await?;
    let details = vec![("name", environment.name.into()), ("provider", environment.provider.as_str().into())];
    let act = Act {
        project: entered.project,
        action: "environment.create",
        target_type: "environment",
        target_id: environment.id.to_string(),
        details,
    };
    record(unit, context, &entered.caller, act).await?;
    Ok(sandbox)
}

/// A sandbox that was passed must be the project's own, live, and of the same provider.
async fn check_shared(unit: &mut Unit, environment: &Environment, wanted: &Sandbox) -> Result<Sandbox> {
    let found = sandboxes::lock(unit, wanted.id).await?.filter(|found| found.project_id == environment.project_id);
    let found = found.ok_or_else(|| Error::not_found("sandbox", wanted.id).suggestion("`stead sandbox list` shows them"))?;
    if found.provider != wanted.provider {
        return Err(provider_mismatch("provider", environment.provider, "sandbox_id", found.provider));
    }
    if found.status == SandboxStatus::Provisioning {
        return Err(Error::new(Code::Conflict, format!("sandbox `{}` is not made yet", found.id))
            .recoverable(true)
            .suggestion("try again in a second"));
    }
    if matches!(found.status, SandboxStatus::Destroying | SandboxStatus::Destroyed) {
        return Err(Error::new(Code::Conflict, format!("sandbox `{}` is being removed", found.id)).suggestion("choose another one"));
    }
    Ok(found)
}
