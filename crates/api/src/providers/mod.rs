//! Providers: one verb, one file.

pub mod check;
pub mod list;
