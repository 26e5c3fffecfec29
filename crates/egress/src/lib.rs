//! What leaves an environment.

pub mod address;
pub mod authority;
pub mod broker;
pub mod control;
pub mod dns;
pub mod environment;
pub mod host;
pub mod journal;
pub mod limits;
pub mod packets;
pub mod policy;
pub mod proxy;
pub mod reason;
pub mod relay;
mod run;
pub mod sniff;
mod sources;
pub mod synthetic;
mod tun;
pub mod upstream;
pub use run::{Options, RunError, run};
