//! Delete a project.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_domain::project::Project;

use crate::State;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// Delete a project and destroy its environments and secrets.
#[utoipa::path(
    delete, path = "/v1/projects/{project}", tag = "projects", operation_id = "deleteProject",
    params(("project" = String, Path, description = "The project's handle"), ("confirm" = Option<String>, Query, description = "The project's handle again")),
    responses((status = 200, body = Project, description = "The final record"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, mut query: Query) -> Result<Response> {
    let confirm = query.text("confirm")?;
    query.end()?;
    json(StatusCode::OK, &state.app.delete_project(&entered, confirm.as_deref()).await?)
}
