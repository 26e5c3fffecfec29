//! Who calls, and what a caller may do in a project.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{ApiKeyId, LeaseId, PrincipalId, ProjectId, RequestId};
use crate::secret::SecretValue;
use crate::time::Timestamp;

text_enum! {
    /// What kind of thing a principal is.
    pub enum PrincipalKind {
        User = "user",
        Service = "service",
        Agent = "agent",
        Worker = "worker",
    }
}

text_enum! {
    /// What a principal may do in a project: a viewer reads, a member reads and writes, an owner also deletes and admits.
    pub enum Role {
        Viewer = "viewer",
        Member = "member",
        Owner = "owner",
    }
}

impl Role {
    /// Whether this role may do what `needed` may.
    pub fn covers(self, needed: Self) -> bool {
        self >= needed
    }
}

/// Somebody or something that calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub id: PrincipalId,
    /// The project that made it; none for those that belong to the whole server.
    pub home: Option<ProjectId>,
    pub kind: PrincipalKind,
    pub name: String,
    pub created_at: Timestamp,
}

/// A principal's place in a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    pub principal_id: PrincipalId,
    pub name: String,
    pub kind: PrincipalKind,
    pub role: Role,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// How a request proved who it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The operator's own user on the other end of the unix socket.
    Socket,
    /// An API key. `project` is the one that it is pinned to; the first owner's key is pinned to none.
    Key { id: ApiKeyId, project: Option<ProjectId> },
    /// The token of a lease, which is of this project: its holder, for as long as it lasts.
    Lease { id: LeaseId, project: ProjectId },
}

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Caller {
    pub principal: PrincipalId,
    pub credential: Credential,
    /// Runs the server: an owner of every project, and the only one who may shut it down or prune.
    pub operator: bool,
    /// Where the request came from, as the audit record tells it.
    pub source: String,
    pub request_id: RequestId,
    /// The project that it was let into, and the role that it needed there. What it changes is checked against this once more when it is
    /// written: a request may be long in coming, and its sender may be gone by then.
    pub let_into: Option<(ProjectId, Role)>,
    /// The caller's word for this attempt, so that a repetition has the same outcome.
    pub idempotency: Option<Idempotency>,
    /// The lease whose token it presented. It decides alone, whoever the caller is.
    pub lease: Option<LeaseId>,
    /// How that lease ended, if it has: whoever presents it changes nothing any more.
    pub lease_ended: Option<String>,
    /// A token of the caller's own at GitHub, if one came with the request: what it shows there is shown by it.
    pub github: Option<SecretValue>,
}

/// An `Idempotency-Key`, and what the request was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// SHA-256 of method, path, query and body.
    pub fingerprint: String,
}
