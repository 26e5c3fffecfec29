//! Who belongs to a project.

use serde::Deserialize;
use stead_domain::ids::{PrincipalId, ProjectId};
use stead_domain::page::{Page, PageRequest};
use stead_domain::principal::{Member, Principal, PrincipalKind, Role};
use stead_domain::{Code, Error, Result, names};
use stead_store::{Unit, api_keys, members, principals, projects, tickets};
use utoipa::ToSchema;

use crate::audit::{Act, record};
use crate::idempotency::{self, Claim, Outcome};
use crate::{App, Entered};

/// Either a principal that is known, or the name of one to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    pub principal_id: Option<PrincipalId>,
    #[schema(max_length = 128)]
    pub name: Option<String>,
    pub kind: Option<PrincipalKind>,
    pub role: Option<Role>,
}

fn unknown(principal: PrincipalId) -> Error {
    Error::not_found("member", principal).suggestion("`stead project members list` shows them")
}

impl App {
    pub async fn list_members(&self, entered: &Entered, page: PageRequest) -> Result<Page<Member>> {
        let (project, limit) = (entered.project, page.limit);
        let rows = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(members::list(unit, project, &page).await?) })).await?;
        Ok(Page::new(rows, limit, |member| member.principal_id.to_string()))
    }

    pub async fn add_member(&self, entered: &Entered, new: NewMember) -> Result<Outcome<Member>> {
        match (&new.principal_id, &new.name) {
            (Some(_), Some(_)) => return Err(Error::field("name", "`principal_id` and `name` exclude each other")),
            (None, None) => return Err(Error::field("name", "a `principal_id` or a `name` is needed")),
            (None, Some(name)) => names::check_name("name", name)?,
            (Some(_), None) if new.kind.is_some() => return Err(Error::field("kind", "is only taken with `name`")),
            (Some(_), None) => {}
        }
        let (context, sealer, entered) = (self.context.clone(), self.sealer.clone(), entered.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    match idempotency::claim(unit, &context, &*sealer, &entered.caller).await? {
                        Claim::New => {}
                        Claim::Answered(reply) => return Ok(Outcome::Again(reply)),
                        Claim::Unfinished(_) => return Err(idempotency::in_progress()),
                    }
                    // The project's row orders changes of its members: of two at once, the second sees the first.
                    projects::lock(unit, entered.project).await?.ok_or_else(|| Error::not_found("project", &entered.handle))?;
                    let now = context.now();
                    let principal = match (new.principal_id, new.name) {
                        (Some(id), _) => {
                            // Another project's principals are nobody here.
                            let known = principals::find(unit, id).await?;
                            known.filter(|known| known.home.is_none_or(|home| home == entered.project)).ok_or_else(|| unknown(id))?
                        }
                        (None, name) => {
                            let name = name.unwrap_or_default();
                            match principals::find_by_name(unit, Some(entered.project), &name).await? {
                                Some(known) => known,
                                None => {
                                    let kind = new.kind.unwrap_or(PrincipalKind::User);
                                    let made = Principal {
                                        id: PrincipalId::new(&context),
                                        home: Some(entered.project),
                                        kind,
                                        name,
                                        created_at: now,
                                    };
                                    principals::insert(unit, &made).await?;
                                    made
                                }
                            }
                        }
                    };
                    let role = new.role.unwrap_or(Role::Member);
                    if !members::insert(unit, entered.project, principal.id, role, now).await? {
                        return Err(Error::new(Code::AlreadyExists, format!("`{}` is a member already", principal.name))
                            .detail("principal_id", principal.id.to_string())
                            .suggestion("change its role instead (`stead project members role`)"));
                    }
                    let member = find(unit, entered.project, principal.id).await?;
                    let details = vec![("name", member.name.clone().into()), ("role", role.as_str().into())];
                    act(unit, &context, &entered, "member.add", principal.id, details).await?;
                    idempotency::answer(unit, &context, &entered.caller, 201, &member).await?;
                    Ok(Outcome::New(member))
                })
            })
            .await
    }

    pub async fn set_role(&self, entered: &Entered, principal: PrincipalId, role: Role) -> Result<Member> {
        let (context, project, entered) = (self.context.clone(), entered.project, entered.clone());
        let member = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    projects::lock(unit, entered.project).await?.ok_or_else(|| Error::not_found("project", &entered.handle))?;
                    let before = find(unit, entered.project, principal).await?;
                    if before.role == Role::Owner && role != Role::Owner {
                        keep_an_owner(unit, entered.project).await?;
                    }
                    // Recorded first: the caller may be giving away its own role, and has it until then.
                    let details = vec![("from", before.role.as_str().into()), ("to", role.as_str().into())];
                    act(unit, &context, &entered, "member.role", principal, details).await?;
                    members::set_role(unit, entered.project, principal, role, context.now()).await?;
                    if !role.covers(Role::Member) {
                        tickets::withdraw_of(unit, entered.project, principal, context.now()).await?;
                    }
                    find(unit, entered.project, principal).await
                })
            })
            .await?;
        if !role.covers(Role::Member) {
            self.end_leases_of(project, principal).await;
        }
        Ok(member)
    }

    /// Takes a member out; its keys in the project die with it.
    pub async fn remove_member(&self, entered: &Entered, principal: PrincipalId) -> Result<()> {
        let (context, project, entered) = (self.context.clone(), entered.project, entered.clone());
        let removed: Result<()> = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    projects::lock(unit, entered.project).await?.ok_or_else(|| Error::not_found("project", &entered.handle))?;
                    let member = find(unit, entered.project, principal).await?;
                    if member.role == Role::Owner {
                        keep_an_owner(unit, entered.project).await?;
                    }
                    // Recorded first: the caller may be leaving, and belongs until then.
                    act(unit, &context, &entered, "member.remove", principal, vec![("name", member.name.into())]).await?;
                    api_keys::revoke_of(unit, entered.project, principal, context.now()).await?;
                    tickets::withdraw_of(unit, entered.project, principal, context.now()).await?;
                    Ok(members::delete(unit, entered.project, principal).await?)
                })
            })
            .await;
        removed?;
        self.end_leases_of(project, principal).await;
        Ok(())
    }
}

async fn find(unit: &mut Unit, project: ProjectId, principal: PrincipalId) -> Result<Member> {
    members::find(unit, project, principal).await?.ok_or_else(|| unknown(principal))
}

async fn keep_an_owner(unit: &mut Unit, project: ProjectId) -> Result<()> {
    if members::owners(unit, project).await? > 1 {
        return Ok(());
    }
    Err(Error::new(Code::LastOwner, "this is the project's last owner").suggestion("make somebody else an owner first"))
}

async fn act(
    unit: &mut Unit,
    context: &stead_domain::Context,
    entered: &Entered,
    action: &str,
    principal: PrincipalId,
    details: Vec<(&str, serde_json::Value)>,
) -> Result<()> {
    let act = Act { project: entered.project, action, target_type: "principal", target_id: principal.to_string(), details };
    record(unit, context, &entered.caller, act).await
}
