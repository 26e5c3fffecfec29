//! Sandboxes as records of their own: several environments may share one, and one that was made by itself stays until it is deleted.

use serde::Deserialize;
use stead_domain::ids::{ProjectId, SandboxId};
use stead_domain::page::{Page, PageRequest};
use stead_domain::principal::Caller;
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::{Sandbox, SandboxStatus};
use stead_domain::{Code, Error, Result};
use stead_store::{leases, sandboxes};
use utoipa::ToSchema;

use crate::audit::{Act, record};
use crate::idempotency::{self, Claim, Outcome};
use crate::provider::NewSandbox;
use crate::reconcile::{locked_sandbox, mark_made};
use crate::{App, Entered};

#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxRequest {
    /// `local` when it is left out.
    pub provider: Option<ProviderName>,
}

fn unknown(id: SandboxId) -> Error {
    Error::not_found("sandbox", id).suggestion("`stead sandbox list` shows them")
}

impl App {
    pub async fn list_sandboxes(&self, entered: &Entered, page: PageRequest) -> Result<Page<Sandbox>> {
        let (project, limit) = (entered.project, page.limit);
        let rows =
            self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(sandboxes::list(unit, project, &page).await?) })).await?;
        Ok(Page::new(rows, limit, |sandbox| sandbox.id.to_string()))
    }

    pub async fn get_sandbox(&self, entered: &Entered, id: SandboxId) -> Result<Sandbox> {
        let project = entered.project;
        let found = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(sandboxes::find(unit, id).await?) })).await?;
        found.filter(|found| found.project_id == project).ok_or_else(|| unknown(id))
    }

    /// Makes one that belongs to no environment.
    pub async fn create_sandbox(&self, entered: &Entered, request: SandboxRequest) -> Result<Outcome<Sandbox>> {
        let serving = self.providers.serving(request.provider.unwrap_or(ProviderName::Local))?;
        let (context, now) = (&self.context, self.context.now());
        let sandbox = Sandbox {
            host_id: serving.host(),
            confirmed_in: Some(self.since.microseconds()),
            ..Sandbox::to_be_made(SandboxId::new(context), entered.project, serving.name(), None, now)
        };
        let (app, caller) = (self.clone(), entered.caller.clone());
        self.detached(async move { app.create_sandbox_to_the_end(caller, sandbox).await }).await
    }

    async fn create_sandbox_to_the_end(&self, caller: Caller, sandbox: Sandbox) -> Result<Outcome<Sandbox>> {
        let mut id = sandbox.id;
        // Held from before the row is visible, so that the reconciler leaves it to us.
        let mut _guard = self.locks.lock(&id.to_string()).await;
        let (context, sealer, claimant) = (self.context.clone(), self.sealer.clone(), caller.clone());
        let claim = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let claim = idempotency::claim(unit, &context, &*sealer, &claimant).await?;
                    if matches!(claim, Claim::New) {
                        idempotency::note_target(unit, &claimant, &sandbox.id.to_string()).await?;
                        sandboxes::insert(unit, &sandbox).await?;
                        record(unit, &context, &claimant, act(sandbox.project_id, "sandbox.create", sandbox.id)).await?;
                    }
                    Ok::<_, Error>(claim)
                })
            })
            .await?;
        match claim {
            Claim::New => {}
            Claim::Answered(reply) => return Ok(Outcome::Again(reply)),
            // The provider finds by our id what the first request made: going on from there has the same outcome.
            Claim::Unfinished(target) => {
                id = target.and_then(|target| target.parse().ok()).ok_or_else(idempotency::in_progress)?;
                _guard = self.locks.lock(&id.to_string()).await;
                let sandbox = self.load_sandbox_row(id).await?;
                self.check_host(&sandbox).map_err(|_| idempotency::in_progress())?;
                if matches!(sandbox.status, SandboxStatus::Destroying | SandboxStatus::Destroyed) {
                    return Err(Error::new(Code::Conflict, format!("sandbox `{id}`, which this request made, has been deleted"))
                        .suggestion("use a new Idempotency-Key to make another one"));
                }
            }
        }
        match self.provision_sandbox(id, Some(&caller)).await {
            Ok(sandbox) => Ok(Outcome::New(sandbox)),
            Err(error) => Err(self.undo_sandbox(id, &caller, error).await),
        }
    }

    async fn load_sandbox_row(&self, id: SandboxId) -> Result<Sandbox> {
        let found = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(sandboxes::find(unit, id).await?) })).await?;
        found.ok_or_else(|| unknown(id))
    }

    /// Makes it at the provider and marks it ready; with a caller, the reply to its request commits with it.
    async fn provision_sandbox(&self, id: SandboxId, caller: Option<&Caller>) -> Result<Sandbox> {
        let sandbox = self.load_sandbox_row(id).await?;
        self.check_host(&sandbox)?;
        let provider = self.providers.serving(sandbox.provider)?;
        let resource = provider.create(&NewSandbox { id, name: format!("sandbox-{}", id.short()) }).await?;
        let (context, caller) = (self.context.clone(), caller.cloned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    mark_made(unit, &context, id, resource).await?;
                    let sandbox = sandboxes::find(unit, id).await?.ok_or_else(|| unknown(id))?;
                    if let Some(caller) = &caller {
                        idempotency::answer(unit, &context, caller, 201, &sandbox).await?;
                    }
                    Ok(sandbox)
                })
            })
            .await
    }

    /// After a provider's failure nothing half-made stays, and the key may be used again.
    async fn undo_sandbox(&self, id: SandboxId, caller: &Caller, error: Error) -> Error {
        let (context, caller, cause) = (self.context.clone(), caller.clone(), error.message().to_owned());
        let undone: Result<()> = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let mut sandbox = locked_sandbox(unit, id).await?;
                    if sandbox.destroyed_at.is_none() {
                        sandbox.status = SandboxStatus::Destroying;
                        sandbox.last_error = Some(cause);
                        sandbox.updated_at = context.now();
                        sandboxes::save(unit, &sandbox).await?;
                    }
                    idempotency::give_back(unit, &caller).await
                })
            })
            .await;
        if let Err(error) = undone.and(self.drive_sandbox_locked(id).await.map(drop)) {
            tracing::warn!(sandbox = %id, %error, "a creation that failed could not be undone yet; the reconciler goes on with it");
        }
        error.detail("sandbox_id", id.to_string())
    }

    /// Brings one of no environment to where its row says it should be. The caller holds the lock on its id.
    pub(crate) async fn drive_sandbox_locked(&self, id: SandboxId) -> Result<Sandbox> {
        let sandbox = self.load_sandbox_row(id).await?;
        match sandbox.status {
            SandboxStatus::Provisioning => match self.provision_sandbox(id, None).await {
                Err(error) if !error.is_recoverable() && error.code() != Code::EnvironmentOnOtherHost => {
                    self.fail_sandbox(id, &error).await
                }
                outcome => outcome,
            },
            SandboxStatus::Destroying => self.remove_sandbox(sandbox).await,
            _ => Ok(sandbox),
        }
    }

    async fn fail_sandbox(&self, id: SandboxId, error: &Error) -> Result<Sandbox> {
        let (context, cause) = (self.context.clone(), error.message().to_owned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let mut sandbox = locked_sandbox(unit, id).await?;
                    if sandbox.status == SandboxStatus::Provisioning {
                        sandbox.status = SandboxStatus::Failed;
                        sandbox.last_error = Some(cause);
                        sandbox.updated_at = context.now();
                        sandboxes::save(unit, &sandbox).await?;
                    }
                    Ok(sandbox)
                })
            })
            .await
    }

    /// Deletes one that no live environment uses.
    pub async fn delete_sandbox(&self, entered: &Entered, id: SandboxId) -> Result<Sandbox> {
        let (context, entered) = (self.context.clone(), entered.clone());
        let sandbox = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let found = sandboxes::lock(unit, id).await?.filter(|found| found.project_id == entered.project);
                    let mut sandbox = found.ok_or_else(|| unknown(id))?;
                    let users = sandboxes::users(unit, id).await?;
                    if users > 0 {
                        return Err(Error::new(Code::SandboxInUse, format!("{users} live environments use sandbox `{id}`"))
                            .detail("environments", users)
                            .suggestion("delete those first"));
                    }
                    if sandbox.destroyed_at.is_none() {
                        sandbox.status = SandboxStatus::Destroying;
                        sandbox.updated_at = context.now();
                        sandboxes::save(unit, &sandbox).await?;
                        record(unit, &context, &entered.caller, act(sandbox.project_id, "sandbox.delete", id)).await?;
                    }
                    Ok::<_, Error>(sandbox)
                })
            })
            .await?;
        let app = self.clone();
        self.detached(async move {
            let _guard = app.locks.lock(&id.to_string()).await;
            app.remove_sandbox(sandbox).await
        })
        .await
    }

    /// Removes one that is marked for it. Another host's is left to that host.
    async fn remove_sandbox(&self, sandbox: Sandbox) -> Result<Sandbox> {
        if sandbox.destroyed_at.is_some() || self.check_host(&sandbox).is_err() {
            return Ok(sandbox);
        }
        self.providers.serving(sandbox.provider)?.destroy(sandbox.id, sandbox.resource_id.as_deref()).await?;
        let (context, id) = (self.context.clone(), sandbox.id);
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let mut sandbox = locked_sandbox(unit, id).await?;
                    if sandbox.destroyed_at.is_none() {
                        let now = context.now();
                        sandbox.status = SandboxStatus::Destroyed;
                        sandbox.destroyed_at = Some(now);
                        leases::end_of_sandbox(unit, sandbox.id, now).await?;
                        sandbox.updated_at = now;
                        sandboxes::save(unit, &sandbox).await?;
                    }
                    Ok(sandbox)
                })
            })
            .await
    }
}

fn act(project: ProjectId, action: &str, id: SandboxId) -> Act<'_> {
    Act { project, action, target_type: "sandbox", target_id: id.to_string(), details: Vec::new() }
}
