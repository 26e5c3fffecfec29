//! Whether the server is there, and whether it can work.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::State;
use crate::reply::{Result, json};

#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// `ready` or `unavailable`.
    status: &'static str,
    /// The server's.
    version: &'static str,
}

/// The process is there.
#[utoipa::path(get, path = "/healthz", tag = "system", security(()), responses((status = 200, description = "It is", body = String)))]
pub async fn healthz() -> &'static str {
    "ok"
}

/// The store answers.
#[utoipa::path(get, path = "/readyz", tag = "system", security(()), responses((status = 200, body = Readiness, description = "It does"), (status = 503, body = Readiness, description = "It does not")))]
pub async fn readyz(Shared(state): Shared<State>) -> Result<Response> {
    let version = state.app.settings().version;
    match state.app.is_ready().await {
        Ok(()) => json(StatusCode::OK, &Readiness { status: "ready", version }),
        Err(_) => json(StatusCode::SERVICE_UNAVAILABLE, &Readiness { status: "unavailable", version }),
    }
}

/// Prometheus metrics.
#[utoipa::path(get, path = "/metrics", tag = "system", security(()), responses((status = 200, description = "Text in the Prometheus format", body = String)))]
pub async fn metrics(Shared(state): Shared<State>) -> String {
    state.metrics.render()
}
