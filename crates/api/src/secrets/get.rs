//! One secret.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::secret::Secret;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

/// One secret, without its value.
#[utoipa::path(
    get, path = "/v1/projects/{project}/secrets/{name}", tag = "secrets", operation_id = "getSecret",
    params(("project" = String, Path, description = "The project's handle"), ("name" = String, Path, description = "The secret's name")),
    responses((status = 200, body = Secret, description = "Its record"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, name)): Path<(String, String)>) -> Result<Response> {
    json(StatusCode::OK, &state.app.get_secret(&entered, &name).await?)
}
