//! Revoke a key.

use axum::extract::{Path, State as Shared};
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::State;
use crate::api_keys::parse_id;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

/// Revoke a key; it is refused from the next request on.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/api-keys/{id}", tag = "api-keys", operation_id = "revokeAPIKey",
    params(("project" = String, Path, description = "The project's handle"), ("id" = String, Path)),
    responses((status = 204, description = "It is revoked"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, id)): Path<(String, String)>) -> Result<Response> {
    state.app.revoke_api_key(&entered, parse_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
