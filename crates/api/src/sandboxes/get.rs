//! One sandbox.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::sandbox::Sandbox;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};
use crate::sandboxes::parse_id;

/// One sandbox.
#[utoipa::path(
    get, path = "/v1/projects/{project}/sandboxes/{sandbox_id}", tag = "sandboxes", operation_id = "getSandbox",
    params(("project" = String, Path, description = "The project's handle"), ("sandbox_id" = String, Path)),
    responses((status = 200, body = Sandbox, description = "The record"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, id)): Path<(String, String)>) -> Result<Response> {
    json(StatusCode::OK, &state.app.get_sandbox(&entered, parse_id(&id)?).await?)
}
