//! HTTP/1.1 to services that the server itself asks: vaults, the hosts of repositories. What they answer is bounded in size and in time.
//!
//! What is deliberately not there: redirects are told and never followed, because a request carries a credential that is for one host;
//! proxies of the surroundings are not used; nothing is repeated. One request has one connection.

mod client;
mod error;
mod tls;

pub use client::{Client, Limits, Reply};
pub use error::OutboundError;
