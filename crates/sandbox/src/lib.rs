//! What only the Linux kernel can say or do. The one crate of Stead with unsafe code, and usable without the rest of it.
//!
//! A [`Plan`] says what a place must be; [`Place::start`] makes it: seven namespaces, a root of its own, no capability, a seccomp filter that
//! everything inside inherits, and a small init that starts processes on request. Whoever calls it must have one thread only: the child goes
//! on as a copy of the caller.

mod apart;
mod capabilities;
pub mod cgroup;
mod error;
mod identity;
mod init;
mod kernel;
mod landlock;
mod layers;
pub mod message;
mod mounts;
mod netlink;
mod outlets;
pub mod peer;
mod place;
mod plan;
mod reserve;
mod root;
mod seccomp;
mod skeleton;
mod spawn;
mod targets;
mod terminal;
mod wire;

pub use apart::fork_apart;
pub use error::{Error, Result};
pub use landlock::{keeps_abstract_sockets_apart, version as landlock_version};
pub use outlets::{NAME_SERVER, Outlet, Outlets};
pub use place::{Event, Exit, Place, StartFailure, StartStep, Streams, Usage};
pub use plan::{Access, Bind, Command, Limit, Network, Overlay, Plan, RootView, Source};
pub use skeleton::Skeleton;
