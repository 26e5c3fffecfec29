//! Machines that run a server and keep local sandboxes. Only a sandbox's own host observes, orphans or removes it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::HostId;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    pub id: HostId,
    /// Where other servers reach it.
    pub address: String,
    pub version: String,
    pub started_at: Timestamp,
    pub heartbeat_at: Timestamp,
}
