//! One version of a definition.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::environment::DefinitionVersion;

use crate::State;
use crate::door::In;
use crate::environments::{parse_id, parse_version};
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

/// One version of an environment's definition.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/versions/{version}", tag = "environments", operation_id = "getEnvironmentVersion",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("version" = u64, Path, minimum = 1)),
    responses((status = 200, body = DefinitionVersion, description = "The version"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id, version)): Path<(String, String, String)>,
) -> Result<Response> {
    json(StatusCode::OK, &state.app.get_version(&entered, parse_id(&id)?, parse_version(&version)?).await?)
}
