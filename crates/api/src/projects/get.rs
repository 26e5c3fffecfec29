//! One project.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_domain::project::Project;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// One project.
#[utoipa::path(
    get, path = "/v1/projects/{project}", tag = "projects", operation_id = "getProject",
    params(("project" = String, Path, description = "The project's handle")),
    responses((status = 200, body = Project, description = "The project"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, query: Query) -> Result<Response> {
    query.end()?;
    json(StatusCode::OK, &state.app.get_project(entered.project).await?)
}
