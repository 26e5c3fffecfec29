//! What an awake environment must be: everything that its steward needs to make it, and to keep it without a server.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stead_domain::ids::EnvironmentId;
use stead_egress::policy::{Access, Policy, PolicyText};

/// What a server asks of its spawner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Become the steward of this; the message carries its end of a stream.
    Wake(Box<Blueprint>),
    /// Remove what a steward left in this directory, and on the host, that did not end by itself. The directory goes last.
    Clear(PathBuf),
}

/// What stands in a message instead of an order that is too long for one; the order is in the last descriptor that comes with it.
pub const ENCLOSED: &[u8] = b"enclosed";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blueprint {
    pub environment: EnvironmentId,
    pub spec_version: u64,
    /// The steward's own: lock, socket.
    pub run: PathBuf,
    /// Output of its processes.
    pub logs: PathBuf,
    /// Where the highest fence of its sandbox is written down, which others may share.
    pub fence: PathBuf,
    /// Where the prepared parts of the root are that all places of this host share.
    pub skeleton: PathBuf,
    pub hostname: String,
    pub workspace: Workspace,
    /// Further things of the host that are seen inside.
    pub binds: Vec<Bind>,
    /// Inside and absolute: read-only although what holds them is not.
    pub protected: Vec<PathBuf>,
    /// Inside and absolute: shown empty.
    pub hidden: Vec<PathBuf>,
    pub network: Network,
    pub limits: Limits,
    /// Directories of the host that hold nothing but what is the environment's own: what they occupy is bounded.
    #[serde(default)]
    pub counted: Vec<PathBuf>,
    /// The filesystem itself holds what is counted to its bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// The inside is root of its own copy of the host's system; what it changes of it lands in layers below this directory.
    #[serde(default)]
    pub system: Option<PathBuf>,
    /// Sealed layers of that kind, from the top down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system_below: Vec<PathBuf>,
    /// A root of its own, in place of the host's system.
    #[serde(default)]
    pub image: Option<Image>,
    /// The first of its ids on the outside, where root makes it: no two environments have the same.
    #[serde(default)]
    pub identity: Option<u32>,
    /// An authority that is believed inside, besides those that the system believes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<Trusted>,
    /// Processes inside may look into each other.
    #[serde(default)]
    pub allow_ptrace: bool,
    /// What every process gets before its own variables.
    pub env: Vec<(String, String)>,
    /// Asleep after so long without a process.
    pub idle_milliseconds: u64,
}

/// Who is believed inside: everybody that the system does, and the environment's own authority.
pub const TRUST_BUNDLE: &str = "/run/stead-trust/ca-certificates.crt";
/// The authority alone, for programs that add to what they know.
pub const TRUST_AUTHORITY: &str = "/run/stead-trust/authority.crt";
/// The bundle as Java has it.
pub const TRUST_KEYSTORE: &str = "/run/stead-trust/cacerts";

/// The certificate of an authority. Two of the same key are the same: each is signed anew.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trusted {
    pub certificate: String,
    pub fingerprint: String,
}

impl PartialEq for Trusted {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

/// What belongs to a project of the filesystem is bounded together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Any directory on that filesystem that stays.
    pub directory: PathBuf,
    pub project: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub root: PathBuf,
    /// Whoever uses it locks it, so that it is not removed.
    pub locked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Inside.
    pub path: PathBuf,
    /// On the host.
    pub source: PathBuf,
    pub access: WorkspaceKind,
    /// Sealed layers that are seen below the source, from the top down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    /// Nothing of it is seen; an empty directory stands in its place.
    None,
    ReadOnly,
    ReadWrite,
    /// What is written lands in a layer of its own below this directory.
    CopyOnWrite {
        layer: PathBuf,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    pub source: PathBuf,
    pub path: PathBuf,
    pub writable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Loopback only.
    Disabled,
    /// Whatever leaves goes through the relay, which decides.
    Relayed {
        /// Where the relay is found.
        relay: PathBuf,
        policy: PolicyText,
    },
}

impl Network {
    /// Ports inside that are taken by the ways out: no program of the environment listens there.
    pub fn own_ports(&self) -> BTreeSet<u16> {
        match self {
            Self::Relayed { policy, .. } if policy.access == Access::Allowlist => {
                let named = Policy::parse(policy).map(|policy| policy.ports()).unwrap_or_default();
                named.into_iter().chain([PROXY_PORT]).collect()
            }
            _ => BTreeSet::new(),
        }
    }
}

/// Where programs find the proxy inside, for those that ask for one.
pub const PROXY_PORT: u16 = 3128;

/// Zero or none: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    pub disk_bytes: Option<u64>,
}
