//! HTTP: who may call what, the routes, the OpenAPI document, and the sockets they are served on.
//!
//! One endpoint is one file with its request, documentation and handler; [`routes`] only lists them, and [`access`] says in one place which
//! role each needs.

pub mod access;
mod api_keys;
mod audit;
mod body;
mod checkpoints;
mod crowd;
mod docs;
mod door;
mod environments;
mod files;
mod framing;
mod github;
mod health;
mod identity;
mod inside;
mod leases;
mod limits;
mod listen;
mod members;
mod metrics;
mod openapi;
mod patience;
mod port_proxy;
mod ports;
mod processes;
mod projects;
mod providers;
mod query;
mod reply;
mod routes;
mod sandboxes;
mod secrets;
mod system;

use std::sync::Arc;

use stead_app::App;
use stead_domain::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use inside::{Answer as InsideAnswer, Question as InsideQuestion, serve_inside};
pub use limits::Limits;
pub use listen::{Listener, Peer, serve};
pub use metrics::{install as install_metrics, keep_up as keep_metrics_up};
pub use openapi::document;
pub use port_proxy::{Ports, router as ports_router};
pub use routes::router;

/// What handlers share.
#[derive(Clone)]
pub struct State {
    pub app: App,
    pub limits: Arc<Limits>,
    pub metrics: metrics::Handle,
    pub started_at: Timestamp,
    /// Told when the operator asks the server to end.
    pub shutdown: Arc<Notify>,
    /// Cancelled when the server ends: who waits or follows is let go.
    pub stopping: CancellationToken,
}
