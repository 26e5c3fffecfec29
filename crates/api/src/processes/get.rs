//! One process.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::process::Process;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::processes::parse_ids;
use crate::query::Query;
use crate::reply::{Result, json};

/// One process, as it is now.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}", tag = "processes", operation_id = "getProcess",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("process_id" = String, Path)),
    responses((status = 200, body = Process, description = "The record"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    query: Query,
) -> Result<Response> {
    query.end()?;
    let (environment, id) = parse_ids(&environment, &id)?;
    json(StatusCode::OK, &state.app.get_process(&entered, environment, id).await?)
}
