//! What a place must be, and what to run in it.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::skeleton::Skeleton;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// A directory or file of the host that is seen inside.
#[derive(Clone, Debug)]
pub struct Bind {
    pub source: PathBuf,
    /// Absolute, inside.
    pub target: PathBuf,
    pub access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A namespace of its own with nothing but loopback.
    None,
    /// The host's own network.
    Host,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub skeleton: Skeleton,
    pub hostname: String,
    /// Beside the system's own directories, which are read-only.
    pub binds: Vec<Bind>,
    pub network: Network,
    /// Where a process starts when its command does not say.
    pub directory: PathBuf,
}

/// One process to be started.
#[derive(Clone, Debug)]
pub struct Command {
    pub argv: Vec<OsString>,
    /// The whole environment; nothing of the caller's is added.
    pub env: Vec<(OsString, OsString)>,
    pub directory: Option<PathBuf>,
    /// Bounds of this one process and what it starts. They only ever lower what is there.
    pub limits: Vec<(Limit, u64)>,
}

/// What the kernel bounds for a single process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    CpuSeconds,
    /// The largest file that it may write, in bytes.
    FileSize,
    OpenFiles,
}

impl Limit {
    pub(crate) fn resource(self) -> u64 {
        match self {
            Self::CpuSeconds => u64::from(libc::RLIMIT_CPU),
            Self::FileSize => u64::from(libc::RLIMIT_FSIZE),
            Self::OpenFiles => u64::from(libc::RLIMIT_NOFILE),
        }
    }
}
