//! Delete an environment.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::environment::Environment;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::{Result, environment};

/// Delete an environment, whatever state it is in. Its name is free; its record stays.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/environments/{environment_id}", tag = "environments", operation_id = "destroyEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path)),
    responses((status = 200, body = Environment, description = "The final record"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    query.end()?;
    environment(StatusCode::OK, &state.app.delete_environment(&entered, parse_id(&id)?).await?)
}
