//! Make a sandbox.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::sandboxes::SandboxRequest;
use stead_domain::sandbox::Sandbox;

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Make a sandbox that belongs to no environment; several may use it.
#[utoipa::path(
    post, path = "/v1/projects/{project}/sandboxes", tag = "sandboxes", operation_id = "createSandbox",
    params(("project" = String, Path, description = "The project's handle"), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<SandboxRequest>,
    responses((status = 201, body = Sandbox, description = "It is ready"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    OptionalJson(request): OptionalJson<SandboxRequest>,
) -> Result<Response> {
    outcome(StatusCode::CREATED, state.app.create_sandbox(&entered, request).await?)
}
