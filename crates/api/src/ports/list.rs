//! List ports.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::ports::EnvironmentPorts;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::PlaceErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// What listens inside an environment now, and what its definition declares. It does not wake for this.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/ports", tag = "ports", operation_id = "listEnvironmentPorts",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path)),
    responses((status = 200, body = EnvironmentPorts, description = "Now"), PlaceErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    query.end()?;
    json(StatusCode::OK, &state.app.list_ports(&entered, parse_id(&id)?).await?)
}
