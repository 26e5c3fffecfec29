//! Make a project.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::identity::NewProject;
use stead_domain::project::Project;

use crate::State;
use crate::body::Json;
use crate::door::Who;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Make a project; its maker becomes its owner.
#[utoipa::path(
    post, path = "/v1/projects", tag = "projects", operation_id = "createProject",
    params(("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = NewProject,
    responses((status = 201, body = Project, description = "It is made"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, Who(caller): Who, Json(new): Json<NewProject>) -> Result<Response> {
    outcome(StatusCode::CREATED, state.app.create_project(&caller, new).await?)
}
