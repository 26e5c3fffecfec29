//! One environment.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::environment::Environment;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, environment};

/// One environment; also one of which only the record is left.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}", tag = "environments", operation_id = "getEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path)),
    responses((status = 200, body = Environment, description = "The record, with its tag in `ETag`"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    query.end()?;
    environment(StatusCode::OK, &state.app.show_environment(&entered, parse_id(&id)?).await?)
}
