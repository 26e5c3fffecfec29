//! Which server, which key, which project: a flag comes before the environment, that before the directory's file, that before a profile.

mod files;
pub mod lease;
mod resolve;
mod surroundings;
pub mod trust;

use std::fmt;
use std::path::PathBuf;

use stead_client::{Endpoint, Key};
use stead_domain::ids::LeaseId;
use stead_domain::lease::{LeaseToken, lease_of};

pub use files::{ConfigFile, Credentials, LOCAL_PROFILE, Profile, place};
pub use resolve::read_key_file;
pub use surroundings::Surroundings;

use crate::arguments::GlobalArguments;
use crate::failure::{Failure, Result};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Flag(&'static str),
    Variable(&'static str),
    /// A `.stead/config.toml` here or above.
    Directory(PathBuf),
    Profile(String),
    /// The section `[local]` of the user's configuration.
    Local,
    /// The key names the project that it is for.
    Key,
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => formatter.write_str(name),
            Self::Variable(name) => formatter.write_str(name),
            Self::Directory(path) => write!(formatter, "{}", path.display()),
            Self::Profile(name) => write!(formatter, "profile {name}"),
            Self::Local => formatter.write_str("[local] of the configuration"),
            Self::Key => formatter.write_str("the key"),
            Self::Default => formatter.write_str("default"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub source: Source,
}

impl<T> Setting<T> {
    fn new(value: T, source: Source) -> Self {
        Self { value, source }
    }
}

/// The server that commands talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one on this machine, which is started when it is not there.
    Local {
        data_dir: Setting<PathBuf>,
        socket: Setting<PathBuf>,
    },
    Remote {
        endpoint: Setting<Endpoint>,
    },
}

impl Target {
    /// Whether the server knows whoever calls without a credential.
    fn is_socket(&self) -> bool {
        match self {
            Self::Local { .. } => true,
            Self::Remote { endpoint } => matches!(endpoint.value, Endpoint::Unix { .. }),
        }
    }
}

/// Whether a command is somebody's who holds an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presents {
    Lease,
    /// It only looks, or a lease that has ended must not keep its owner from the next.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub target: Target,
    pub key: Option<Setting<Key>>,
    /// Certificates to trust instead of the machine's.
    pub ca_file: Option<Setting<PathBuf>>,
    /// What every command presents as the holder of an environment.
    pub lease: Option<Setting<LeaseToken>>,
    pub project: Setting<String>,
    /// The profile that the target came from.
    pub profile: Option<Setting<String>>,
    pub no_start: bool,
    /// What was found and deliberately not used.
    pub warnings: Vec<String>,
}

impl Settings {
    pub fn resolve(global: &GlobalArguments, surroundings: &Surroundings, presents: Presents) -> Result<Self> {
        resolve::resolve(global, surroundings, presents)
    }

    /// Which lease a command that presents one would present, whether it may be used or not; none where that cannot be told.
    pub fn named_lease(global: &GlobalArguments, surroundings: &Surroundings) -> Option<Setting<LeaseId>> {
        lease::named(global, surroundings)
    }

    /// What is left when the files cannot be read.
    pub fn resolve_without_files(global: &GlobalArguments, surroundings: &Surroundings) -> Result<Self> {
        resolve::resolve_without_files(global, surroundings)
    }

    /// Why files of settings cannot be read, for each that cannot.
    pub fn broken_files(surroundings: &Surroundings) -> Vec<Failure> {
        resolve::read_files(surroundings).into_iter().filter_map(Result::err).collect()
    }

    /// The same for somebody who presents this lease, or none.
    pub fn presenting(&self, token: Option<LeaseToken>) -> Self {
        let lease = token.map(|token| Setting::new(token, Source::Default));
        Self { lease, ..self.clone() }
    }

    /// The lease that is presented, by itself or as the credential.
    pub fn presented(&self) -> Option<Setting<LeaseId>> {
        let alone = self.lease.as_ref().and_then(|token| Some(Setting::new(lease_of(&token.value.0)?, token.source.clone())));
        alone.or_else(|| lease::of_key(self.key.as_ref()?))
    }

    pub fn endpoint(&self) -> Endpoint {
        match &self.target {
            Target::Local { socket, .. } => Endpoint::Unix { path: socket.value.clone() },
            Target::Remote { endpoint } => endpoint.value.clone(),
        }
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
