//! Delete a sandbox.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::sandbox::Sandbox;

use crate::State;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};
use crate::sandboxes::parse_id;

/// Delete a sandbox that no live environment uses.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/sandboxes/{sandbox_id}", tag = "sandboxes", operation_id = "deleteSandbox",
    params(("project" = String, Path, description = "The project's handle"), ("sandbox_id" = String, Path)),
    responses((status = 200, body = Sandbox, description = "The final record"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, id)): Path<(String, String)>) -> Result<Response> {
    json(StatusCode::OK, &state.app.delete_sandbox(&entered, parse_id(&id)?).await?)
}
