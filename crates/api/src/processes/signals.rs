//! Send a signal.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::process::Process;
use stead_domain::process_request::SignalRequest;

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::processes::parse_ids;
use crate::reply::{Result, outcome};

/// Send a signal to a process and its group, by name or number.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/signals", tag = "processes", operation_id = "signalProcess",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("process_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = SignalRequest,
    responses((status = 200, body = Process, description = "It was sent; the process as it is now"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    Json(request): Json<SignalRequest>,
) -> Result<Response> {
    let (environment, id) = parse_ids(&environment, &id)?;
    outcome(StatusCode::OK, state.app.signal_process(&entered, environment, id, request.signal).await?)
}
