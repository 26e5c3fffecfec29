//! Projects: made by whoever may, owned by who made them.

use serde::Deserialize;
use stead_domain::ids::{EnvironmentId, ProjectId};
use stead_domain::page::{Page, PageRequest};
use stead_domain::principal::{Caller, Credential, Role};
use stead_domain::project::Project;
use stead_domain::{Code, Error, Result, names};
use stead_store::{StoreError, environments, members, projects, sandboxes, secrets};
use utoipa::ToSchema;

use crate::audit::{Act, record};
use crate::environments::begin_destroying;
use crate::idempotency::{self, Claim, Outcome};
use crate::{App, Entered};

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProject {
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 63)]
    pub handle: String,
    /// A name for people; the handle when it is left out.
    #[schema(max_length = 128)]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectEdit {
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 63)]
    pub handle: Option<String>,
    #[schema(max_length = 128)]
    pub name: Option<String>,
}

fn handle_taken(handle: &str) -> Error {
    Error::new(Code::AlreadyExists, format!("the handle `{handle}` is taken"))
        .detail("field", "handle")
        .suggestion("choose another handle; `stead project list` shows those that you can see")
}

impl App {
    /// All projects that the caller can see.
    pub async fn list_projects(&self, caller: &Caller, page: PageRequest) -> Result<Page<Project>> {
        let limit = page.limit;
        let member = (!caller.operator).then_some(caller.principal);
        let only = match caller.credential {
            Credential::Key { project, .. } => project,
            Credential::Lease { project, .. } => Some(project),
            Credential::Socket => None,
        };
        let rows =
            self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(projects::list(unit, member, only, &page).await?) })).await?;
        Ok(Page::new(rows, limit, |project| project.id.to_string()))
    }

    pub async fn get_project(&self, id: ProjectId) -> Result<Project> {
        let found = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(projects::find(unit, id).await?) })).await?;
        found.ok_or_else(|| Error::not_found("project", id))
    }

    /// Makes a project; its maker becomes its owner.
    pub async fn create_project(&self, caller: &Caller, new: NewProject) -> Result<Outcome<Project>> {
        names::check_handle(&new.handle)?;
        let name = new.name.unwrap_or_else(|| new.handle.clone());
        names::check_text("name", &name, 128)?;
        let (context, sealer, caller) = (self.context.clone(), self.sealer.clone(), caller.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    match idempotency::claim(unit, &context, &*sealer, &caller).await? {
                        Claim::New => {}
                        Claim::Answered(reply) => return Ok(Outcome::Again(reply)),
                        Claim::Unfinished(_) => return Err(idempotency::in_progress()),
                    }
                    let now = context.now();
                    let project = Project { id: ProjectId::new(&context), handle: new.handle, name, created_at: now, updated_at: now };
                    match projects::insert(unit, &project).await {
                        Err(StoreError::Duplicate(_)) => return Err(handle_taken(&project.handle)),
                        outcome => outcome?,
                    }
                    members::insert(unit, project.id, caller.principal, Role::Owner, now).await?;
                    let details = vec![("handle", project.handle.clone().into())];
                    let act = Act {
                        project: project.id,
                        action: "project.create",
                        target_type: "project",
                        target_id: project.id.to_string(),
                        details,
                    };
                    record(unit, &context, &caller, act).await?;
                    idempotency::answer(unit, &context, &caller, 201, &project).await?;
                    Ok(Outcome::New(project))
                })
            })
            .await
    }

    pub async fn update_project(&self, entered: &Entered, edit: ProjectEdit) -> Result<Project> {
        if let Some(handle) = &edit.handle {
            names::check_handle(handle)?;
        }
        if let Some(name) = &edit.name {
            names::check_text("name", name, 128)?;
        }
        let (context, entered) = (self.context.clone(), entered.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let mut project =
                        projects::lock(unit, entered.project).await?.ok_or_else(|| Error::not_found("project", &entered.handle))?;
                    project.handle = edit.handle.unwrap_or(project.handle);
                    project.name = edit.name.unwrap_or(project.name);
                    project.updated_at = context.now();
                    match projects::save(unit, &project).await {
                        Err(StoreError::Duplicate(_)) => return Err(handle_taken(&project.handle)),
                        outcome => outcome?,
                    }
                    let details = vec![("handle", project.handle.clone().into()), ("name", project.name.clone().into())];
                    let act = Act {
                        project: project.id,
                        action: "project.update",
                        target_type: "project",
                        target_id: project.id.to_string(),
                        details,
                    };
                    record(unit, &context, &entered.caller, act).await?;
                    Ok(project)
                })
            })
            .await
    }

    /// Deletes a project and destroys its environments. The caller repeats the handle, so that no slip of a path does it.
    pub async fn delete_project(&self, entered: &Entered, confirm: Option<&str>) -> Result<Project> {
        if confirm != Some(entered.handle.as_str()) {
            let message = match confirm {
                None => format!("deleting project `{}` destroys its environments and secrets, and takes `confirm`", entered.handle),
                Some(_) => format!("`confirm` does not name project `{}`", entered.handle),
            };
            return Err(Error::new(Code::ConfirmationRequired, message)
                .detail("field", "confirm")
                .suggestion(format!("repeat the call with ?confirm={}", entered.handle)));
        }
        let (context, entered) = (self.context.clone(), entered.clone());
        let (project, doomed, alone) = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let mut project =
                        projects::lock(unit, entered.project).await?.ok_or_else(|| Error::not_found("project", &entered.handle))?;
                    project.updated_at = context.now();
                    projects::mark_deleted(unit, project.id, project.updated_at).await?;
                    secrets::delete_of(unit, project.id, entered.caller.principal, project.updated_at).await?;
                    // Sandboxes before environments, as everywhere: two units that lock in other orders would wait for each other.
                    let alone = sandboxes::doom_of_deleted_projects(unit, project.updated_at).await?;
                    let mut doomed: Vec<EnvironmentId> = Vec::new();
                    for id in environments::of_project(unit, project.id).await? {
                        if let Some(environment) = environments::lock(unit, id).await? {
                            begin_destroying(unit, &context, environment, Some(entered.caller.principal)).await?;
                            doomed.push(id);
                        }
                    }
                    let details = vec![("handle", project.handle.clone().into()), ("environments", doomed.len().into())];
                    let act = Act {
                        project: project.id,
                        action: "project.delete",
                        target_type: "project",
                        target_id: project.id.to_string(),
                        details,
                    };
                    record(unit, &context, &entered.caller, act).await?;
                    Ok::<_, Error>((project, doomed, alone))
                })
            })
            .await?;
        // What fails here stays `destroying`, and the reconciler goes on with it.
        let app = self.clone();
        self.detached(async move {
            for id in doomed {
                if let Err(error) = app.drive(id).await {
                    tracing::warn!(environment = %id, %error, "an environment of a deleted project could not be removed yet");
                }
            }
            for id in alone {
                let _guard = app.locks.lock(&id.to_string()).await;
                if let Err(error) = app.drive_sandbox_locked(id).await {
                    tracing::warn!(sandbox = %id, %error, "a sandbox of a deleted project could not be removed yet");
                }
            }
            Ok(project)
        })
        .await
    }
}
