//! What this server is.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use stead_domain::Timestamp;
use stead_domain::ids::HostId;
use stead_domain::port_origin::PortOrigin;
use stead_domain::process::Process;
use utoipa::ToSchema;

use crate::State;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

#[derive(Serialize, ToSchema)]
struct GithubStatus {
    app: String,
    /// The name that git knows it by.
    host: String,
    /// Whether people can sign in by it.
    signs_in: bool,
}

#[derive(Serialize, ToSchema)]
pub struct SystemStatus {
    version: &'static str,
    data_dir: String,
    address: String,
    /// How ports of environments are reached; absent when they are not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<String>,
    /// The GitHub App that tokens for repositories come from; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    github: Option<GithubStatus>,
    started_at: Timestamp,
    /// `sqlite` or `postgres`.
    store: &'static str,
    host_id: HostId,
    /// What runs on this host now, in whatever project, and would outlive the server.
    running: Vec<Process>,
}

/// What this server is and where its files are.
#[utoipa::path(
    get, path = "/v1/system", tag = "system", operation_id = "getSystem",
    params(),
    responses((status = 200, body = SystemStatus, description = "The server"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>) -> Result<Response> {
    let settings = state.app.settings();
    json(
        StatusCode::OK,
        &SystemStatus {
            version: settings.version,
            data_dir: settings.data_dir.display().to_string(),
            address: settings.address.clone(),
            ports: settings.ports.as_ref().map(PortOrigin::pattern),
            github: state.app.git_host().map(|host| GithubStatus {
                app: host.app().to_owned(),
                host: host.name().to_owned(),
                signs_in: host.signs_in(),
            }),
            started_at: state.started_at,
            store: state.app.store_kind(),
            host_id: state.app.host(),
            running: state.app.running_here().await?,
        },
    )
}
