//! Secrets: one verb, one file. No route tells a value.

pub mod delete;
pub mod get;
pub mod history;
pub mod list;
pub mod set;
