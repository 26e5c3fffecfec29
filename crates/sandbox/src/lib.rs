//! What only the Linux kernel can say or do. The one crate of Stead with unsafe code, and usable without the rest of it.
//!
//! A [`Plan`] says what a place must be; [`Place::start`] makes it: seven namespaces, a root of its own, no capability, Landlock and a seccomp
//! filter that everything inside inherits, and a small init that starts processes on request. [`cgroup`] bounds what all of it may use.
//! Whoever makes a place must have one thread only, because the first process inside begins as a copy of it; with more it is refused. For the
//! same reason it should hold nothing at that time that the inside must never see, although init hides its memory from all others.

mod apart;
mod arguments;
mod attached;
mod capabilities;
pub mod cgroup;
mod devices;
mod error;
mod family;
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
mod protect;
pub mod quota;
mod reserve;
mod root;
mod seccomp;
mod secrets;
mod shed;
mod skeleton;
mod spawn;
mod targets;
mod terminal;
mod users;
mod wire;
mod writeback;

pub use apart::{bury_children, fork_apart, survive_broken_pipes};
pub use arguments::locate_arguments;
pub use error::{Error, Result};
pub use init::ERRAND_NAME;
pub use landlock::{keeps_abstract_sockets_apart, version as landlock_version};
pub use outlets::{NAME_SERVER, Outlet, Outlets};
pub use place::{Event, Exit, Place, StartFailure, StartStep, Streams, Usage};
pub use plan::{Access, Bind, Command, Errands, Limit, Network, Overlay, Plan, RootView, Source};
pub use shed::shed;
pub use skeleton::Skeleton;
pub use writeback::begin_writing;
