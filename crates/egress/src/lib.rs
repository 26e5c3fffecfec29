//! What leaves an environment.

pub mod address;
pub mod dns;
pub mod host;
pub mod policy;
pub mod reason;
pub mod sniff;
pub mod synthetic;
