//! Make an environment.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::environments::NewEnvironment;
use stead_domain::environment::Environment;

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, environment_outcome};

/// Make an environment from a definition, which may be partial.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments", tag = "environments", operation_id = "createEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = NewEnvironment,
    responses((status = 201, body = Environment, description = "It is ready"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Json(new): Json<NewEnvironment>) -> Result<Response> {
    environment_outcome(StatusCode::CREATED, state.app.create_environment(&entered, new).await?)
}
