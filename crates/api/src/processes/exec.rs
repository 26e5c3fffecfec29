//! Run a command to its end.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::{HeaderValue, StatusCode};
use stead_domain::process_request::{ExecRequest, ExecResult};

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

/// Run a command and answer with what it printed when it is over. A code that is not 0 is an answer too.
///
/// Of each stream at most 8 MiB are answered, and `Stead-Truncated` names those that were cut; the whole is in the log of the process that
/// `Stead-Process-Id` names. Each `Stead-Warning` is something to know of it, such as an optional secret that is not set.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/exec", tag = "processes", operation_id = "execEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = ExecRequest,
    responses((status = 200, body = ExecResult, description = "It is over"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(request): Json<ExecRequest>,
) -> Result<Response> {
    let executed = state.app.execute(&entered, parse_id(&id)?, request).await?;
    let mut response = json(StatusCode::OK, &executed.result)?;
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&executed.process.id.to_string()) {
        headers.insert("stead-process-id", id);
    }
    if !executed.truncated.is_empty() {
        let names: Vec<&str> = executed.truncated.iter().map(|stream| stream.as_str()).collect();
        if let Ok(names) = HeaderValue::from_str(&names.join(", ")) {
            headers.insert("stead-truncated", names);
        }
    }
    for warning in &executed.process.warnings {
        if let Ok(warning) = HeaderValue::from_str(warning) {
            headers.append("stead-warning", warning);
        }
    }
    if executed.again {
        headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}
