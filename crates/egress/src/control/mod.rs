//! The control socket: how a server tells the relay what to do, and finds it again after a restart.

mod blocking;
mod client;
mod protocol;
mod serve;
mod wire;

use std::path::{Path, PathBuf};

pub use blocking::BlockingClient;
pub use client::{Client, ClientError};
pub use protocol::{Failure, LAST, Listed, PROTOCOL, Reply, Request, Socket};
pub(crate) use serve::serve;
pub use wire::MOST_DESCRIPTORS;

/// Where the relay listens, in the directory that it was given.
pub fn socket_path(directory: &Path) -> PathBuf {
    directory.join("relay.sock")
}
