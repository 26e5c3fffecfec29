//! What only the Linux kernel can say or do. The one crate of Stead with unsafe code, and usable without the rest of it.
//!
//! A [`Plan`] says what a place must be; [`Place::start`] makes it: seven namespaces, a root of its own, no capability, a seccomp filter that
//! everything inside inherits, and a small init that starts processes on request. Whoever calls it must have one thread only: the child goes
//! on as a copy of the caller.

mod capabilities;
mod error;
mod identity;
mod init;
mod kernel;
mod mounts;
pub mod peer;
mod place;
mod plan;
mod root;
mod seccomp;
mod skeleton;
mod spawn;
mod wire;

pub use error::{Error, Result};
pub use place::{Exit, Place, Usage};
pub use plan::{Access, Bind, Command, Network, Plan};
pub use skeleton::Skeleton;
