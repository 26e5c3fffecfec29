//! Wake an environment.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::environment::Environment;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, environment_outcome};

/// Make an environment ready for a command without one. It does nothing when it is awake.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/wake", tag = "processes", operation_id = "wakeEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    responses((status = 200, body = Environment, description = "Done"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, id)): Path<(String, String)>) -> Result<Response> {
    environment_outcome(StatusCode::OK, state.app.wake_environment(&entered, parse_id(&id)?).await?)
}
