//! The door: from a credential to a caller, and from a caller and a project to a role.

use stead_domain::api_key;
use stead_domain::ids::{ApiKeyId, PrincipalId, ProjectId, RequestId};
use stead_domain::lease::{self, LeaseRecord, LeaseToken, TOKEN_PREFIX};
use stead_domain::principal::{Caller, Credential, Role};
use stead_domain::project::Project;
use stead_domain::{Code, Error, Result, names};
use stead_store::{Unit, api_keys, leases, members, projects, settings};

use crate::App;
use crate::idempotency::TOLD_AGAIN;

/// The setting that names the operator's principal.
pub(crate) const OPERATOR: &str = "operator";

/// What a request needs before it is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: it tells nobody's business.
    Open,
    /// Any good credential.
    Authenticated,
    /// The operator of the server.
    Operator,
    /// At least this role in the project that the path names.
    Project(Role),
}

/// What a request brought to prove who it is from.
#[derive(Clone)]
pub enum Presented {
    Nothing,
    /// The unix socket says that it is the operator's own user, outside any sandbox.
    Socket,
    Key(String),
}

/// The rest of what is known of a request at the door.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub source: String,
    pub request_id: RequestId,
    /// The token of a lease that came beside the credential.
    pub lease: Option<LeaseToken>,
}

/// A caller in a project, with the role that it has there.
#[derive(Clone, Debug)]
pub struct Entered {
    pub caller: Caller,
    pub project: ProjectId,
    pub handle: String,
    pub role: Role,
}

/// Somebody who was let in: with a project where the route has one.
#[derive(Clone, Debug)]
pub enum Admitted {
    Anybody,
    Caller(Caller),
    Entered(Entered),
}

/// What the door says to a request.
pub struct Verdict {
    /// The key that it came with: it counts against that key's limit also when it is refused.
    pub key: Option<ApiKeyId>,
    pub outcome: Result<Admitted>,
}

impl App {
    /// Lets a request in or says why not.
    pub async fn admit(&self, access: Access, presented: Presented, project: Option<String>, arrival: Arrival) -> Result<Admitted> {
        self.judge(access, presented, project, arrival).await?.outcome
    }

    /// The same, telling also whose request it was. One read, whatever it needs.
    pub async fn judge(&self, access: Access, presented: Presented, project: Option<String>, arrival: Arrival) -> Result<Verdict> {
        if access == Access::Open {
            return Ok(Verdict { key: None, outcome: Ok(Admitted::Anybody) });
        }
        let now = self.context.now();
        let verdict = self
            .store
            .glance(move |unit| {
                Box::pin(async move {
                    let caller = identify(unit, presented, arrival, now).await?;
                    let key = match caller.credential {
                        Credential::Key { id, .. } => Some(id),
                        Credential::Socket | Credential::Lease { .. } => None,
                    };
                    let outcome = match access {
                        Access::Open | Access::Authenticated => Ok(Admitted::Caller(caller)),
                        Access::Operator if caller.operator => Ok(Admitted::Caller(caller)),
                        Access::Operator => Err(Error::new(Code::Forbidden, "only the operator of this server may do this").suggestion(
                            "use the unix socket as the user who runs the server, or the key in owner.key of its data directory",
                        )),
                        Access::Project(needed) => {
                            let reference = project.unwrap_or_default();
                            enter(unit, caller, &reference, needed).await.map(Admitted::Entered)
                        }
                    };
                    match outcome {
                        // A fault of the store's is nobody's refusal.
                        Err(error) if !matches!(error.code(), Code::Forbidden | Code::NotFound) => Err(error),
                        outcome => Ok(Verdict { key, outcome }),
                    }
                })
            })
            .await?;
        if let Ok(admitted) = &verdict.outcome {
            self.note_use(admitted);
        }
        Ok(verdict)
    }

    /// Asks again whether somebody who was let in still has this role: a connection that stays open outlives what opened it.
    pub async fn may_still(&self, entered: &Entered, role: Role) -> Result<()> {
        let caller = Caller { let_into: Some((entered.project, role)), ..entered.caller.clone() };
        let now = self.context.now();
        self.store.read(move |unit| Box::pin(async move { recheck(unit, &caller, now).await })).await
    }

    /// Notes the use of a key behind the request.
    fn note_use(&self, admitted: &Admitted) {
        let (Admitted::Caller(caller) | Admitted::Entered(Entered { caller, .. })) = admitted else { return };
        let Credential::Key { id, .. } = caller.credential else { return };
        let now = self.context.now();
        if self.key_uses.is_due(id, now) {
            let store = self.store.clone();
            self.tasks.spawn(async move {
                let noted: Result<()> = store.write(move |unit| Box::pin(async move { Ok(api_keys::touch(unit, id, now).await?) })).await;
                if let Err(error) = noted {
                    tracing::warn!(key = %id, %error, "the use of a key could not be noted");
                }
            });
        }
    }
}

async fn identify(unit: &mut Unit, presented: Presented, arrival: Arrival, now: stead_domain::Timestamp) -> Result<Caller> {
    let operator: Option<PrincipalId> = settings::get(unit, OPERATOR).await?.and_then(|id| id.parse().ok());
    let mut lease_ended = None;
    let mut lease = match &arrival.lease {
        Some(token) => {
            let record = presented_lease(unit, &token.0).await?;
            lease_ended = record.end.as_ref().map(ToString::to_string);
            Some(record.lease.id)
        }
        None => None,
    };
    let (principal, credential, is_operator) = match presented {
        Presented::Nothing => return Err(unauthorized("no credential was sent")),
        Presented::Socket => {
            let principal = operator.ok_or_else(|| Error::internal("the store has no operator"))?;
            (principal, Credential::Socket, true)
        }
        Presented::Key(text) if text.starts_with(TOKEN_PREFIX) => {
            let (token, claimed) = api_key::split(&text);
            let record = presented_lease(unit, token).await?;
            let (id, project) = (record.lease.id, record.of.project_id);
            if lease.is_some_and(|other| other != id) {
                return Err(unauthorized("two different leases were presented"));
            }
            let handle = projects::find(unit, project).await?.map(|project| project.handle);
            if claimed.is_some_and(|claimed| Some(claimed) != handle.as_deref()) {
                return Err(unauthorized("the lease is of another project than the one appended to its token"));
            }
            lease_ended = record.end.as_ref().map(ToString::to_string);
            // A moment longer, so that a release whose reply was lost can be repeated; what it changes is refused all the same.
            if record.end.is_some_and(|end| end.at.plus(TOLD_AGAIN) <= now) {
                return Err(ended_lease());
            }
            lease = Some(id);
            (record.lease.principal, Credential::Lease { id, project }, false)
        }
        Presented::Key(text) => {
            let (key, claimed) = api_key::split(&text);
            let found = api_keys::find_by_hash(unit, &api_key::hash(key)).await?.ok_or_else(|| unauthorized("the API key is not known"))?;
            if found.revoked_at.is_some() {
                return Err(unauthorized("the API key was revoked"));
            }
            if found.key.expires_at.is_some_and(|expires_at| expires_at <= now) {
                return Err(unauthorized("the API key has expired"));
            }
            if claimed.is_some_and(|claimed| claimed != found.project_handle) {
                return Err(unauthorized("the API key is for another project than the one appended to it"));
            }
            let everywhere = !found.pinned && claimed.is_none();
            let project = (!everywhere).then_some(found.key.project_id);
            let is_operator = everywhere && Some(found.key.principal_id) == operator;
            (found.key.principal_id, Credential::Key { id: found.key.id, project }, is_operator)
        }
    };
    Ok(Caller {
        principal,
        credential,
        operator: is_operator,
        source: arrival.source,
        request_id: arrival.request_id,
        let_into: None,
        idempotency: None,
        lease,
        lease_ended,
        github: None,
    })
}

/// A project that the caller may not see is answered as one that is not there.
async fn enter(unit: &mut Unit, caller: Caller, reference: &str, needed: Role) -> Result<Entered> {
    let shown = || reference.chars().take(64).collect::<String>();
    let unseen = || Error::not_found("project", shown()).suggestion("`stead project list` shows the projects that you can see");
    let project = find_project(unit, reference).await?.ok_or_else(unseen)?;
    if let Credential::Key { project: Some(pinned), .. } | Credential::Lease { project: pinned, .. } = caller.credential
        && pinned != project.id
    {
        return Err(unseen());
    }
    let role = if caller.operator { Some(Role::Owner) } else { members::role(unit, project.id, caller.principal).await? };
    let mut role = role.ok_or_else(unseen)?;
    if let Credential::Lease { .. } = caller.credential {
        // It is for work in an environment, and for nobody's keys and members.
        role = role.min(Role::Member);
    }
    if let Credential::Lease { .. } = caller.credential
        && !role.covers(needed)
    {
        return Err(
            Error::new(Code::Forbidden, "the token of a lease is for work in its environment").suggestion("use an API key for this")
        );
    }
    if !role.covers(needed) {
        return Err(Error::new(
            Code::Forbidden,
            format!("this needs the role `{needed}` in project `{}`, and yours is `{role}`", project.handle),
        )
        .detail("needed", needed.as_str())
        .detail("role", role.as_str())
        .suggestion(format!("ask an owner of `{}` for it (`stead project members role`)", project.handle)));
    }
    let caller = Caller { let_into: Some((project.id, needed)), ..caller };
    Ok(Entered { caller, project: project.id, handle: project.handle, role })
}

/// Asks again, in the unit that makes a change, whether its caller may still make it.
pub(crate) async fn recheck(unit: &mut Unit, caller: &Caller, now: stead_domain::Timestamp) -> Result<()> {
    if let Credential::Key { id, .. } = caller.credential
        && !api_keys::is_good(unit, id, now).await?
    {
        return Err(unauthorized("the API key was revoked or has expired"));
    }
    if let Credential::Lease { id, .. } = caller.credential
        && leases::find(unit, id).await?.is_none_or(|record| record.end.is_some())
    {
        return Err(ended_lease());
    }
    match caller.let_into {
        Some((project, needed)) if !caller.operator => match members::role(unit, project, caller.principal).await? {
            Some(role) if role.covers(needed) => Ok(()),
            _ => Err(Error::new(Code::Forbidden, "your role in the project was taken away while the request was on its way")
                .suggestion("ask an owner of the project")),
        },
        _ => Ok(()),
    }
}

/// By handle, or by id: no handle looks like an id.
async fn find_project(unit: &mut Unit, reference: &str) -> Result<Option<Project>> {
    Ok(match reference.parse::<ProjectId>() {
        Ok(id) => projects::find(unit, id).await?,
        // What is no handle is nobody's, and the store is not asked for text that it may not even take.
        Err(_) if names::check_handle(reference).is_err() => None,
        Err(_) => projects::find_by_handle(unit, reference).await?,
    })
}

/// The lease of a token. What is no token of ours is answered like one that has ended: nobody learns which leases there are.
async fn presented_lease(unit: &mut Unit, token: &str) -> Result<LeaseRecord> {
    let record = match lease::lease_of(token) {
        Some(id) => leases::find(unit, id).await?,
        None => None,
    };
    let hash = api_key::hash(token);
    record.filter(|record| record.token_hash.as_deref() == Some(hash.as_str())).ok_or_else(ended_lease)
}

/// What whoever presents an ended lease is told.
pub fn lease_has_ended(how: &str) -> Error {
    Error::new(Code::FenceStale, format!("the lease that was presented has ended: {how}"))
        .suggestion("acquire the environment anew, or present no lease; `stead logs` has what its commands printed")
}

fn ended_lease() -> Error {
    Error::new(Code::FenceStale, "the lease that was presented has ended, or was never given out")
        .suggestion("acquire the environment anew; leave out `Stead-Lease` to act without a lease")
}

fn unauthorized(message: &str) -> Error {
    Error::new(Code::Unauthorized, message)
        .suggestion("send `Authorization: Bearer stk_…`; `stead login URL --key-file FILE` keeps a key, `stead key create` makes one")
}
