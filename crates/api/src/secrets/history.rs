//! When a secret was set.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::secret::SecretHistory;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

/// The versions of a secret: who set it, and when. Only the last value is kept, and none is told.
#[utoipa::path(
    get, path = "/v1/projects/{project}/secrets/{name}/versions", tag = "secrets", operation_id = "listSecretVersions",
    params(("project" = String, Path, description = "The project's handle"), ("name" = String, Path, description = "The secret's name")),
    responses((status = 200, body = SecretHistory, description = "The last thousand, the newest first"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, name)): Path<(String, String)>) -> Result<Response> {
    json(StatusCode::OK, &state.app.secret_history(&entered, &name).await?)
}
