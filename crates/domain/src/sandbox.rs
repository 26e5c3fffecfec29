//! The actual place at a provider: a directory, a box. Several environments may share one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::checkpoint::Stack;
use crate::ids::{CheckpointId, EnvironmentId, HostId, ProjectId, SandboxId};
use crate::provider::ProviderName;
use crate::time::Timestamp;

text_enum! {
    pub enum SandboxStatus {
        Provisioning = "provisioning",
        Ready = "ready",
        Stopped = "stopped",
        Failed = "failed",
        Orphaned = "orphaned",
        Destroying = "destroying",
        Destroyed = "destroyed",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sandbox {
    pub id: SandboxId,
    pub project_id: ProjectId,
    /// The provider that really keeps it, also where an environment's record shows an alias.
    pub provider: ProviderName,
    pub status: SandboxStatus,
    /// The provider's own id for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The host that keeps it, for local ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<HostId>,
    /// The environment that it was made for; it goes with that one unless another live one uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_for: Option<EnvironmentId>,
    /// What its files come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<CheckpointId>,
    #[serde(skip)]
    pub stack: Stack,
    /// Grows with every change of holder and is never reused.
    pub fence: u64,
    /// In which life of its host's server it is known who runs in it.
    #[serde(skip)]
    pub confirmed_in: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destroyed_at: Option<Timestamp>,
}

impl Sandbox {
    /// One that is to be made, for an environment or by itself.
    pub fn to_be_made(
        id: SandboxId,
        project_id: ProjectId,
        provider: ProviderName,
        made_for: Option<EnvironmentId>,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            project_id,
            provider,
            status: SandboxStatus::Provisioning,
            resource_id: None,
            resource_name: None,
            host_id: None,
            made_for,
            checkpoint_id: None,
            stack: Stack::default(),
            fence: 0,
            confirmed_in: None,
            last_error: None,
            observed_at: None,
            created_at: now,
            updated_at: now,
            destroyed_at: None,
        }
    }
}

/// How far a restored backup throws every fence ahead, so that none that was given out after the backup is given out again.
pub const FENCE_JUMP: u64 = 1 << 32;
