//! The HTTP surface of environments and what is around it, asked over TCP as a client would.

mod absent_clients;
mod audit;
mod bad_requests;
mod creation;
mod definitions;
mod deletion;
mod edits;
mod hosts;
mod idempotency;
mod lists;
mod processes;
mod providers;
mod reconciling;
mod sandboxes;
mod surface;
mod versions;
pub mod world;
