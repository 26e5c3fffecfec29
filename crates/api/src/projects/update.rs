//! Rename a project.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::identity::ProjectEdit;
use stead_domain::project::Project;

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

/// Change a project's handle or name.
#[utoipa::path(
    patch, path = "/v1/projects/{project}", tag = "projects", operation_id = "updateProject",
    params(("project" = String, Path, description = "The project's handle")),
    request_body = ProjectEdit,
    responses((status = 200, body = Project, description = "As it is now"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Json(edit): Json<ProjectEdit>) -> Result<Response> {
    json(StatusCode::OK, &state.app.update_project(&entered, edit).await?)
}
