//! Remove a process.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::process::Process;

use crate::State;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::processes::parse_ids;
use crate::query::Query;
use crate::reply::{Result, json};

/// Remove a process: one that runs is killed, and its record and its output go.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}", tag = "processes", operation_id = "deleteProcess",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("process_id" = String, Path)),
    responses((status = 200, body = Process, description = "The final record"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    query: Query,
) -> Result<Response> {
    query.end()?;
    let (environment, id) = parse_ids(&environment, &id)?;
    json(StatusCode::OK, &state.app.remove_process(&entered, environment, id).await?)
}
