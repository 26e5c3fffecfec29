//! Take a member out.

use axum::extract::{Path, State as Shared};
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::State;
use crate::door::In;
use crate::members::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

/// Take a member out; its keys in the project are revoked.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/members/{principal_id}", tag = "members", operation_id = "removeMember",
    params(("project" = String, Path, description = "The project's handle"), ("principal_id" = String, Path)),
    responses((status = 204, description = "It belongs no more"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, principal)): Path<(String, String)>) -> Result<Response> {
    state.app.remove_member(&entered, parse_id(&principal)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
