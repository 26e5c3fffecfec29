//! Go back to a version.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::environment::Environment;

use crate::State;
use crate::door::In;
use crate::environments::{parse_id, parse_version};
use crate::openapi::ChangeErrors;
use crate::reply::{Result, environment_outcome};

/// Make an earlier definition the present one again, as a new version.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/versions/{version}/rollback", tag = "environments", operation_id = "rollbackEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("version" = u64, Path, minimum = 1), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    responses((status = 200, body = Environment, description = "As it is now"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id, version)): Path<(String, String, String)>,
) -> Result<Response> {
    environment_outcome(StatusCode::OK, state.app.roll_back(&entered, parse_id(&id)?, parse_version(&version)?).await?)
}
