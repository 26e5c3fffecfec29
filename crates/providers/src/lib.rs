//! Providers of sandboxes.

pub mod local;
