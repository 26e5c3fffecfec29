//! Delete a secret.

use axum::extract::{Path, State as Shared};
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::State;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

/// Delete a secret: its value is gone. Processes that have it keep it.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/secrets/{name}", tag = "secrets", operation_id = "deleteSecret",
    params(("project" = String, Path, description = "The project's handle"), ("name" = String, Path, description = "The secret's name")),
    responses((status = 204, description = "It is gone"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, name)): Path<(String, String)>) -> Result<Response> {
    state.app.delete_secret(&entered, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
