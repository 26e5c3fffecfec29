//! What leaves an environment.

pub mod address;
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
pub mod sniff;
pub mod synthetic;
pub mod upstream;
