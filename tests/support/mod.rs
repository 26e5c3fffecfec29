//! A server of the test's own, and ways to talk to it.

pub mod beside;
pub mod github;
mod http;
mod server;

pub use http::{Http, Reply};
pub use server::{Server, ServerBuilder, stead};
