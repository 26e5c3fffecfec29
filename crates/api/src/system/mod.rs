//! The server itself: one verb, one file.

pub mod prune;
pub mod rotate_key;
pub mod shutdown;
pub mod status;
pub mod usage;
