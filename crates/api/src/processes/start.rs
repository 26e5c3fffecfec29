//! Start a process.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::process::Process;
use stead_domain::process_request::NewProcess;

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Start a process. The environment wakes for it if need be; when this answers, the program runs.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/processes", tag = "processes", operation_id = "startProcess",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = NewProcess,
    responses((status = 201, body = Process, description = "It runs"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(new): Json<NewProcess>,
) -> Result<Response> {
    outcome(StatusCode::CREATED, state.app.start_process(&entered, parse_id(&id)?, new).await?)
}
