//! What an environment does now.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::process::EnvironmentActivity;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// What an environment does now: how many processes run, and what they use. It does not wake for this.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/activity", tag = "processes", operation_id = "getEnvironmentActivity",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path)),
    responses((status = 200, body = EnvironmentActivity, description = "Now"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    query.end()?;
    json(StatusCode::OK, &state.app.environment_activity(&entered, parse_id(&id)?).await?)
}
