//! One suite for both databases, and a comparison of the two under random work.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backups;
mod conformance;
mod differential;
mod failures;
mod fixtures;
mod processes;
mod schema;
mod secrets;
