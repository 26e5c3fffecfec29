//! A typed client of Stead's HTTP API, over a unix socket or TCP.
//!
//! It speaks HTTP/1.1 through hyper directly and loads certificates only when an address is https: a command that asks one question
//! must not wait for what it does not need.

mod api_keys;
mod arrived;
mod audit;
mod changes;
mod checkpoints;
mod client;
mod connection;
mod download;
mod egress;
mod endpoint;
mod environments;
mod error;
mod files;
mod follow;
mod github;
mod grep;
mod identity;
mod key;
mod leases;
mod members;
mod outgoing;
mod ports;
mod processes;
mod projects;
mod providers;
mod request;
mod sandboxes;
mod secrets;
mod system;
mod tls;
mod tunnel;
mod watch;

pub use api_keys::NewApiKey;
pub use audit::AuditFilter;
pub use checkpoints::{DiffQuery, Forks};
pub use client::Client;
pub use download::Download;
pub use endpoint::Endpoint;
pub use environments::{EnvironmentFilter, Posture, Tagged, VersionDifference};
pub use error::{CertificateProblem, ClientError};
pub use files::Listing;
pub use follow::{Follow, Heard};
pub use grep::Grep;
pub use http::Method;
pub use identity::Identity;
pub use key::Key;
pub use leases::NewLease;
pub use members::NewMember;
pub use outgoing::Upload;
pub use processes::{Logs, ProcessFilter};
pub use projects::ProjectEdit;
pub use providers::ProviderList;
pub use request::{ListOptions, Request, Response};
pub use system::{PruneReport, PrunedItem, Readiness, System, Usage, UsageItem};
pub use tunnel::Tunnel;
pub use watch::Watch;

pub type Result<T, E = ClientError> = std::result::Result<T, E>;
