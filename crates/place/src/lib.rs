//! A place where processes run: the steward that keeps one awake environment, the protocol that a server speaks to it, and the logs that
//! outlive both.
//!
//! Files are the truth, sockets are only fast: whatever a steward has said can be read again from the directories in [`Directories`].

pub mod blueprint;
pub mod client;
mod directories;
#[cfg(feature = "steward")]
mod errand;
pub mod fence_file;
pub mod log;
pub mod protocol;
#[cfg(feature = "steward")]
mod remains;
pub mod secrets;
mod socket_path;
#[cfg(any(test, feature = "steward"))]
mod spare_directory;
#[cfg(feature = "steward")]
pub mod spawner;
#[cfg(feature = "steward")]
mod steward;
mod steward_lock;
#[cfg(feature = "steward")]
pub mod tree;
mod warrant;

pub use directories::Directories;
pub use warrant::Warrant;
