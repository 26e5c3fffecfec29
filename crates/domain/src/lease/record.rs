//! What is kept of a lease beside what the rules know of it.

use serde::{Deserialize, Serialize};

use super::desk::{Lease, Ticket};
use super::{LeaseEnd, TicketStatus};
use crate::definition::AtRelease;
use crate::environment::{BoundToType, Purpose};
use crate::ids::{EnvironmentId, ProjectId, SandboxId};
use crate::time::Timestamp;

/// What whoever asked for it said of it. The rules need none of this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_type: Option<BoundToType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_release: Option<AtRelease>,
    /// The hash of its token, by the server where it was asked for: whoever grants it later may have another key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_hash: Option<String>,
    /// The environment's lifetime is this lease's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reaps: bool,
}

impl Terms {
    pub fn at_release(&self) -> AtRelease {
        self.at_release.unwrap_or(AtRelease::Keep)
    }
}

/// Where a lease belongs to, and what was said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub project_id: ProjectId,
    pub environment_id: EnvironmentId,
    pub sandbox_id: SandboxId,
    pub terms: Terms,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    pub lease: Lease,
    pub of: Whereabouts,
    /// Of its token; none for one that was taken by a call that needed it.
    pub token_hash: Option<String>,
    pub acquired_at: Timestamp,
    pub end: Option<EndRecord>,
    /// Something is still to be done with what it left.
    pub has_work: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndRecord {
    pub at: Timestamp,
    pub how: LeaseEnd,
    pub clean: bool,
    pub reason: Option<String>,
}

/// As people are told.
impl std::fmt::Display for EndRecord {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} at {}", self.how, self.at.to_the_second())?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(formatter, " ({reason})"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketRecord {
    pub ticket: Ticket,
    pub of: Whereabouts,
    pub status: TicketStatus,
    pub created_at: Timestamp,
}
