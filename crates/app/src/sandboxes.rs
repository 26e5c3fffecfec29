//! Sandboxes as records of their own: several environments may share one, and one that was made by itself stays until it is deleted.

use serde::Deserialize;
use stead_domain::environment::ProviderStatus;
use stead_domain::ids::{ProjectId, SandboxId};
use stead_domain::page::{Page, PageRequest};
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::{Sandbox, SandboxStatus};
use stead_domain::{Code, Error, Result};
use stead_store::sandboxes;
use utoipa::ToSchema;

use crate::audit::{Act, record};
use crate::idempotency::{self, Claim, Outcome};
use crate::provider::NewSandbox;
use crate::reconcile::locked_sandbox;
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
        let serving = self.providers.serving(request.provider.unwrap_or(ProviderName::Local))?.clone();
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move {
            let (context, sealer, caller) = (app.context.clone(), app.sealer.clone(), entered.caller.clone());
            let now = context.now();
            let mut sandbox = Sandbox {
                id: SandboxId::new(&context),
                project_id: entered.project,
                provider: serving.name(),
                status: SandboxStatus::Provisioning,
                resource_id: None,
                resource_name: None,
                host_id: serving.host(),
                made_for: None,
                fence: 0,
                last_error: None,
                observed_at: None,
                created_at: now,
                updated_at: now,
                destroyed_at: None,
            };
            let row = sandbox.clone();
            let claim = app
                .store
                .write(move |unit| {
                    Box::pin(async move {
                        let claim = idempotency::claim(unit, &context, &*sealer, &caller).await?;
                        if matches!(claim, Claim::New) {
                            idempotency::note_target(unit, &caller, &row.id.to_string()).await?;
                            sandboxes::insert(unit, &row).await?;
                            let act = act(row.project_id, "sandbox.create", row.id);
                            record(unit, &context, &caller, act).await?;
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
                    let id = target.and_then(|target| target.parse().ok()).ok_or_else(idempotency::in_progress)?;
                    sandbox = app.get_sandbox(&entered, id).await?;
                }
            }
            let resource = serving.create(&NewSandbox { id: sandbox.id, name: format!("sandbox-{}", sandbox.id.short()) }).await?;
            let (context, caller) = (app.context.clone(), entered.caller.clone());
            app.store
                .write(move |unit| {
                    Box::pin(async move {
                        let now = context.now();
                        let mut sandbox = locked_sandbox(unit, sandbox.id).await?;
                        sandbox.status = SandboxStatus::Ready;
                        sandbox.resource_id = Some(resource.id);
                        sandbox.resource_name = Some(resource.name);
                        sandbox.updated_at = now;
                        sandboxes::save(unit, &sandbox).await?;
                        let status = ProviderStatus { state: "ready".to_owned(), observed_at: now, message: None };
                        sandboxes::observe(unit, sandbox.id, &status).await?;
                        idempotency::answer(unit, &context, &caller, 201, &sandbox).await?;
                        Ok(Outcome::New(sandbox))
                    })
                })
                .await
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
        self.detached(async move { app.remove_sandbox(sandbox).await }).await
    }

    async fn remove_sandbox(&self, mut sandbox: Sandbox) -> Result<Sandbox> {
        if sandbox.destroyed_at.is_some() {
            return Ok(sandbox);
        }
        self.providers.serving(sandbox.provider)?.destroy(sandbox.id, sandbox.resource_id.as_deref()).await?;
        let context = self.context.clone();
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let now = context.now();
                    sandbox.status = SandboxStatus::Destroyed;
                    sandbox.destroyed_at = Some(now);
                    sandbox.updated_at = now;
                    sandboxes::save(unit, &sandbox).await?;
                    Ok(sandbox)
                })
            })
            .await
    }

    /// What a deleted project leaves besides its environments.
    pub(crate) async fn remove_standalone_sandboxes(&self, project: ProjectId) -> Result<()> {
        loop {
            let page = PageRequest { limit: 100, after: None };
            let rows =
                self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(sandboxes::list(unit, project, &page).await?) })).await?;
            let mine: Vec<Sandbox> = rows.into_iter().filter(|row| row.host_id.is_none_or(|host| host == self.host)).collect();
            if mine.is_empty() {
                return Ok(());
            }
            for sandbox in mine {
                self.remove_sandbox(sandbox).await?;
            }
        }
    }
}

fn act(project: ProjectId, action: &str, id: SandboxId) -> Act<'_> {
    Act { project, action, target_type: "sandbox", target_id: id.to_string(), details: Vec::new() }
}
