//! One command in an environment, and how it ended.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::duration::Duration;
use crate::ids::{EnvironmentId, PrincipalId, ProcessId, ProjectId, SandboxId};
use crate::time::Timestamp;

text_enum! {
    pub enum ProcessStatus {
        /// The record is there; the program may be running already.
        Starting = "starting",
        Running = "running",
        /// It ended; `exit` says how.
        Exited = "exited",
        /// There was never a program; `error` says why.
        Failed = "failed",
    }
}

impl ProcessStatus {
    pub fn is_over(self) -> bool {
        matches!(self, Self::Exited | Self::Failed)
    }
}

text_enum! {
    /// Why a process is no more.
    pub enum ExitCause {
        /// By itself, with a code.
        Exited = "exited",
        /// By a signal that somebody sent.
        Signaled = "signaled",
        /// It had run for as long as it may.
        Timeout = "timeout",
        /// The environment had no memory left.
        OutOfMemory = "oom",
        /// The environment had no disk left.
        DiskFull = "disk_full",
        /// Another holder took the environment over.
        Fenced = "fenced",
        /// Whoever kept it was gone before it could be told how it ended.
        Lost = "lost",
    }
}

text_enum! {
    /// What Stead itself started a process for.
    pub enum ProcessPurpose {
        /// The definition's setup script.
        Setup = "setup",
        /// A repository that is put into the environment.
        Checkout = "checkout",
    }
}

text_enum! {
    /// Which output a byte came from. A terminal has only one, and it counts as stdout.
    pub enum OutputStream {
        Stdout = "stdout",
        Stderr = "stderr",
    }
}

text_enum! {
    /// What happens when a process prints more than is kept of one.
    pub enum Overflow {
        /// The middle of its output is given up; the process does not notice.
        Drop = "drop",
        /// It waits for those who follow it with `hold=true`, as one that writes into a pipe does.
        Hold = "hold",
    }
}

text_enum! {
    pub enum StdinMode {
        Closed = "closed",
        Open = "open",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    pub rows: u16,
    pub cols: u16,
}

/// What one process may use, within what its environment may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessLimits {
    /// Seconds of processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// The largest file that it may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_mb: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessUsage {
    pub cpu_ms: u64,
    pub peak_memory_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessExit {
    pub cause: ExitCause,
    /// What the program said itself, when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub usage: ProcessUsage,
    pub duration_ms: u64,
    pub ended_at: Timestamp,
    /// Limits of the environment that were hit while it ran, such as `pids`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits_hit: Vec<String>,
}

impl ProcessExit {
    /// As a shell would say it.
    pub fn shell_code(&self) -> i32 {
        match (self.cause, self.code, self.signal) {
            (ExitCause::Timeout, ..) => 124,
            (_, Some(code), _) => code,
            (_, None, Some(signal)) => 128 + signal,
            (_, None, None) => 125,
        }
    }
}

/// What an environment does now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentActivity {
    pub environment_id: EnvironmentId,
    /// Whether there is anything of it but its files.
    pub awake: bool,
    /// Those that run, each with whatever it started.
    pub processes: u64,
    /// Programs that run although the command that started them has ended.
    #[serde(default)]
    pub background: u64,
    /// Processor time of everything since it woke.
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    /// Whoever keeps it is of another version than the server: it takes no new process, and ends with its last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

/// A process as the store and the API have it. Values of the environment variables are never part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Process {
    pub id: ProcessId,
    pub project_id: ProjectId,
    pub environment_id: EnvironmentId,
    pub sandbox_id: SandboxId,
    pub status: ProcessStatus,
    pub argv: Vec<String>,
    /// Inside; the workspace when it was not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    pub stdin: StdinMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The version of the definition that it was started under.
    pub spec_version: u64,
    /// The sandbox's fence at its start.
    pub fence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<PrincipalId>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProcessExit>,
    /// Why there was never a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// None: somebody asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<ProcessPurpose>,
    /// What whoever started it should know, such as which optional secrets it began without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
