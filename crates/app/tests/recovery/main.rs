//! The application under faults: a provider that fails, hangs or loses its reply at any step, servers that die in between, and time that a
//! test moves. Whatever happens, the reconciler ends with places that are whole or gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod beforehand;
mod cloud;
mod creations;
mod hosts;
mod janitor;
mod keys;
mod life;
mod memory;
mod processes;
mod processes_life;
mod removals;
mod repositories;
mod sandboxes;
mod setups;
mod storms;
mod workspaces;
