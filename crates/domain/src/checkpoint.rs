//! A point in the files of a sandbox, to go back to and to begin other environments from.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Result;
use crate::ids::{CheckpointId, EnvironmentId, HostId, LayerId, PrincipalId, ProjectId, SandboxId};
use crate::names;
use crate::time::Timestamp;

text_enum! {
    pub enum CheckpointState {
        /// Nothing changes it any more.
        Sealed = "sealed",
        /// It also survives the host's going down.
        Durable = "durable",
    }
}

text_enum! {
    /// What it was made for.
    pub enum CheckpointReason {
        /// Somebody asked for it.
        Requested = "requested",
        /// The definition's `checkpoints.every`.
        Interval = "interval",
        /// A fork of what was there at that moment.
        Fork = "fork",
        /// An export of what was there at that moment.
        Export = "export",
        /// What was there before another one was restored.
        BeforeRestore = "before_restore",
        /// What a holder left that did not let go by itself, before the next one came.
        BeforeTakeover = "before_takeover",
        /// What a holder left, because it asked for that.
        AtRelease = "at_release",
    }
}

impl CheckpointReason {
    /// Whether old ones go by themselves when there are more than the definition keeps.
    pub fn is_automatic(self) -> bool {
        self != Self::Requested
    }
}

text_enum! {
    /// What happens when processes run in the environment.
    pub enum OnRunning {
        /// It is refused.
        Busy = "busy",
        /// They are stopped.
        Stop = "stop",
        /// They stand still for a moment, and go on.
        Freeze = "freeze",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    pub id: CheckpointId,
    pub project_id: ProjectId,
    pub environment_id: EnvironmentId,
    pub sandbox_id: SandboxId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the files came from that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<CheckpointId>,
    pub state: CheckpointState,
    pub reason: CheckpointReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<PrincipalId>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable_at: Option<Timestamp>,
    /// Why it is not durable, when it cannot become so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it consists of, from the top down.
    #[serde(skip)]
    pub layers: Vec<LayerId>,
    /// The version of the definition whose setup script had run to its end.
    #[serde(skip)]
    pub setup_version: Option<u64>,
    #[serde(skip)]
    pub host_id: Option<HostId>,
    /// The provider's mark of the time in which it was sealed: a host that went down since may have lost some of it.
    #[serde(skip)]
    pub sealed_in: Option<String>,
}

/// What a sandbox sees of its files: what it writes to, over what is sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// None: the first one, which was made with the sandbox.
    pub upper: Option<LayerId>,
    /// From the top down.
    pub below: Vec<LayerId>,
}

impl Stack {
    /// What the sandbox writes to.
    pub fn upper_of(&self, sandbox: SandboxId) -> LayerId {
        self.upper.unwrap_or_else(|| LayerId::first_of(sandbox))
    }

    /// Everything, from the top down.
    pub fn all(&self, sandbox: SandboxId) -> Vec<LayerId> {
        std::iter::once(self.upper_of(sandbox)).chain(self.below.iter().copied()).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCheckpoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub name: Option<String>,
    /// `busy` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_running: Option<OnRunning>,
    /// What the reply waits for; `durable` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<CheckpointState>,
}

impl NewCheckpoint {
    pub fn check(&self) -> Result<()> {
        self.name.as_ref().map_or(Ok(()), |name| names::check_name("name", name))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// `stop` when it is left out. `freeze` means nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_running: Option<OnRunning>,
    /// Makes a checkpoint of what is there now, before it goes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub save: bool,
}

/// The most environments that one request makes.
pub const MOST_FORKS: u32 = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// What is there now when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<CheckpointId>,
    /// Of several, each gets a number after it; made from the name of the first environment when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub name: Option<String>,
    /// 1 when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub count: Option<u32>,
    /// When what is there now is forked and processes run: `busy` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_running: Option<OnRunning>,
}
