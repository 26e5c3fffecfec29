//! What a place must be, and what to run in it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::cgroup::Group;
use crate::outlets::Outlets;
use crate::skeleton::Skeleton;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// Layers that are seen as one directory; what is written goes to the upper one.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// From the top down; at least one. None of them is ever written to.
    pub lower: Vec<PathBuf>,
    pub upper: PathBuf,
    /// An empty directory beside `upper`, for the kernel's own use, and for one mount only.
    pub work: PathBuf,
    /// What is written may be lost when the host goes down, and after such an end the layer is refused. For what is thrown away anyway:
    /// it makes the inside's own syncing free, and its end does not wait for the disk.
    pub volatile: bool,
}

/// What is seen at a target.
#[derive(Clone, Debug)]
pub enum Source {
    /// A directory or file of the host. No step of its path may be a link.
    Host { path: PathBuf, access: Access },
    /// Layers of directories of the host.
    Overlay { overlay: Overlay, access: Access },
}

#[derive(Clone, Debug)]
pub struct Bind {
    pub source: Source,
    /// Absolute, inside. No step of it may be a link.
    pub target: PathBuf,
    /// Makes the target where it is missing inside another bind, and so on the host. Otherwise such a plan is refused.
    pub make_target: bool,
}

impl Bind {
    pub fn read_only(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self::host(source.into(), target.into(), Access::ReadOnly)
    }

    pub fn read_write(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self::host(source.into(), target.into(), Access::ReadWrite)
    }

    pub fn overlay(overlay: Overlay, target: impl Into<PathBuf>) -> Self {
        Self { source: Source::Overlay { overlay, access: Access::ReadWrite }, target: target.into(), make_target: false }
    }

    /// Layers of which nothing is written, the upper one included.
    pub fn overlay_read_only(overlay: Overlay, target: impl Into<PathBuf>) -> Self {
        Self { source: Source::Overlay { overlay, access: Access::ReadOnly }, target: target.into(), make_target: false }
    }

    fn host(path: PathBuf, target: PathBuf, access: Access) -> Self {
        Self { source: Source::Host { path, access }, target, make_target: false }
    }
}

/// What the inside sees as its root.
#[derive(Clone, Debug)]
pub enum RootView {
    /// The system of the host, read-only, without homes, secrets or sockets.
    Host,
    /// A directory that holds a system of its own, read-only.
    Directory(PathBuf),
    /// Such a directory below a layer that takes what is written.
    Overlay(Overlay),
    /// The system of the host as the place's own, packages included: what is written to it lands in layers that are made below this
    /// directory, `<part>/upper` for each part of the system. `below` are such directories that are sealed, from the top down. Only with
    /// [`Plan::system`].
    HostCopy { layers: PathBuf, below: Vec<PathBuf>, volatile: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// A namespace of its own with nothing but loopback.
    None,
    /// A namespace of its own, and ways out of it that [`crate::Place::outlets`] hands over.
    Own(Outlets),
    /// The host's own network.
    Host,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub skeleton: Skeleton,
    pub hostname: String,
    pub root: RootView,
    /// Beside the system's own directories, which are read-only.
    pub binds: Vec<Bind>,
    /// Absolute paths inside that cannot be changed, moved or, where they are missing, made.
    pub protected: Vec<PathBuf>,
    /// Absolute paths inside that are shown empty.
    pub hidden: Vec<PathBuf>,
    pub network: Network,
    /// Shares the host's network also where the kernel cannot keep the host's abstract sockets apart (before Linux 6.12). Otherwise such a
    /// plan is refused.
    pub allow_abstract_sockets: bool,
    /// Where a process starts when its command does not say.
    pub directory: PathBuf,
    /// How many bytes the files in memory may take: /tmp, /var/tmp, /run, /home and /dev/shm together. If it does not say, half
    /// of what the group may use, or half of the memory.
    pub tmp_size: Option<u64>,
    /// What everything inside may use together. The keeper stays outside of it, and removes it afterwards.
    pub group: Option<Group>,
    /// The first of the ids that the inside has on the outside, where root makes the place: one, or 65,536 with `system`. No two places that
    /// must not reach each other share any. If it does not say, the same for all places.
    pub identity: Option<u32>,
    /// The inside is root of a system of its own, with the ids of a whole system, and keeps what it takes to install packages there. Only
    /// where root makes the place.
    pub system: bool,
    /// Processes inside may look into each other, as debuggers do.
    pub allow_ptrace: bool,
    /// An absolute path inside where [`crate::Place::keep_secrets`] puts files: in memory, and read-only for everybody there.
    pub secrets: Option<PathBuf>,
    /// What [`crate::Place::errand`] runs.
    pub errands: Option<Errands>,
}

/// Code of the caller's own that runs inside, with the descriptor that it is given and nothing else of the outside. It sees, and may do, what
/// every other process there does; the caller trusts it no more than them.
pub type Errands = fn(OwnedFd);

impl Plan {
    /// The host's system, nothing of the host's data, no network.
    pub fn new(skeleton: Skeleton) -> Self {
        Self {
            skeleton,
            hostname: "place".to_owned(),
            root: RootView::Host,
            binds: Vec::new(),
            protected: Vec::new(),
            hidden: Vec::new(),
            network: Network::None,
            allow_abstract_sockets: false,
            directory: PathBuf::from("/"),
            tmp_size: None,
            group: None,
            identity: None,
            system: false,
            allow_ptrace: false,
            secrets: None,
            errands: None,
        }
    }

    /// Whether something inside is written to layers.
    pub(crate) fn has_layers(&self) -> bool {
        matches!(self.root, RootView::Overlay(_) | RootView::HostCopy { .. })
            || self.binds.iter().any(|bind| matches!(bind.source, Source::Overlay { .. }))
    }

    /// In bytes; 0 for half of the memory.
    pub(crate) fn memory_for_files(&self) -> u64 {
        let of_group = || self.group.as_ref().and_then(Group::memory_bytes).map(|bytes| bytes / 2);
        self.tmp_size.or_else(of_group).unwrap_or(0)
    }
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
