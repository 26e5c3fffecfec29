//! Leases as every surface shows them. Times are said as what is left: nobody's clock is compared with anybody else's.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::token::LeaseToken;
use super::{Directive, LeaseBind, LeaseEnd, LeaseMode};
use crate::definition::AtRelease;
use crate::environment::{BoundToType, Environment, Purpose};
use crate::ids::{EnvironmentId, LeaseId, PrincipalId, SandboxId, TicketId};
use crate::time::Timestamp;

/// The most a ticket's place may be moved by whoever asks for it.
pub const MOST_PRIORITY: i8 = 10;
/// How long a note may be.
pub const LONGEST_NOTE: usize = 1024;

/// How the reason of one begins that was handed on; the name of its next holder follows.
pub const HANDED_ON: &str = "handed on to ";

text_enum! {
    pub enum LeaseStatus {
        Active = "active",
        Released = "released",
        Expired = "expired",
        Revoked = "revoked",
    }
}

impl From<LeaseEnd> for LeaseStatus {
    fn from(end: LeaseEnd) -> Self {
        match end {
            LeaseEnd::Released => Self::Released,
            LeaseEnd::Expired => Self::Expired,
            LeaseEnd::Revoked => Self::Revoked,
        }
    }
}

impl From<super::Stage> for LeaseStage {
    fn from(stage: super::Stage) -> Self {
        use super::Stage;
        match stage {
            Stage::Fencing => Self::Fencing,
            Stage::Active => Self::Active,
            Stage::Stopping => Self::Stopping,
        }
    }
}

text_enum! {
    /// How far one is that has not ended.
    pub enum LeaseStage {
        /// What the holder before left is being stopped. Its time has not begun.
        Fencing = "fencing",
        Active = "active",
        /// It was released, and what it left is being stopped.
        Stopping = "stopping",
    }
}

text_enum! {
    pub enum TicketStatus {
        Waiting = "waiting",
        /// A lease came of it.
        Granted = "granted",
        /// Nobody let go in time.
        TimedOut = "timed_out",
        Withdrawn = "withdrawn",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseView {
    pub id: LeaseId,
    pub environment_id: EnvironmentId,
    pub sandbox_id: SandboxId,
    pub status: LeaseStatus,
    /// Only before it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<LeaseStage>,
    pub mode: LeaseMode,
    pub bind: LeaseBind,
    /// Taken by a call that needed one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub implicit: bool,
    /// Strictly increasing per sandbox, and never given out twice.
    pub fence: u64,
    pub principal_id: PrincipalId,
    /// The principal's name.
    pub holder: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_type: Option<BoundToType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub at_release: AtRelease,
    pub acquired_at: Timestamp,
    /// When it ends unless it is renewed, on the server's clock: for people. `expires_in_ms` is what to go by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// When to renew it: there is time to try three times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_after_ms: Option<u64>,
    /// After which no renewal helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_expires_in_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Timestamp>,
    /// Whether nothing of it was left running when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<bool>,
    /// Why somebody ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Only whoever acquires it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<LeaseToken>,
    /// Who held it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousLease>,
    /// The next few who wait for it, in order; only of one that is held and asked for alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<HolderView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviousLease {
    pub id: LeaseId,
    pub holder: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub ended: LeaseEnd,
    pub clean: bool,
    pub ended_at: Timestamp,
}

/// Somebody who waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TicketView {
    pub id: TicketId,
    pub environment_id: EnvironmentId,
    /// The lease that comes of it.
    pub lease_id: LeaseId,
    pub status: TicketStatus,
    /// How far the lease is that came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<LeaseStage>,
    /// How many are before it in the queue, counted up to ten thousand.
    pub position: u64,
    /// Who holds it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HolderView>,
    /// The next few who wait before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<HolderView>,
    pub deadline_in_ms: u64,
    pub poll_after_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HolderView {
    /// None of one that still waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<LeaseId>,
    pub holder: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// By a call that needed it, and only for as long as something runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub implicit: bool,
}

/// What came of asking for a lease: the lease, or a place in the queue for one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AcquireReply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseView>,
    /// With `environment_ids`: one of each, in the order in which they were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<AcquiredItem>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketView>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AcquiredItem {
    pub environment: Environment,
    pub lease: LeaseView,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewReply {
    pub id: LeaseId,
    pub fence: u64,
    pub expires_in_ms: u64,
    pub renew_after_ms: u64,
    pub directive: Directive,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// Refused when it is another one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// Instead of what was said when it was acquired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_release: Option<AtRelease>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakRequest {
    #[schema(max_length = 1024)]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferRequest {
    /// A principal, by id or by name.
    pub to: String,
    /// `token` when it is left out: whoever has what is answered holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<LeaseBind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub note: Option<String>,
}
