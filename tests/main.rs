//! The real binary as a user runs it. One test binary with modules: each one links a hundred megabytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests fail loudly and run on real time"
)]

mod support;

mod api;
mod authorization;
mod checkpoints;
mod command_line;
mod contract;
mod crashes;
mod definitions;
mod faults;
mod github;
mod identity;
mod leases;
mod readme;
mod secrets;
mod workspaces;
