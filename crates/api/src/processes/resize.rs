//! Resize a terminal.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::process::{Process, TerminalSize};

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::processes::parse_ids;
use crate::reply::{Result, outcome};

/// Tell a process with a terminal how large it is now.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/resize", tag = "processes", operation_id = "resizeProcess",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("process_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = TerminalSize,
    responses((status = 200, body = Process, description = "It was told"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    Json(size): Json<TerminalSize>,
) -> Result<Response> {
    let (environment, id) = parse_ids(&environment, &id)?;
    let resize = state.app.resize_process(&entered, environment, id, size);
    outcome(StatusCode::OK, state.app.once(&entered.caller, resize).await?)
}
