//! Set a secret.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::secret::{NewSecretValue, SecretSet};

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

/// Give a secret a value. Processes that begin afterwards get it. The same value again changes nothing.
#[utoipa::path(
    put, path = "/v1/projects/{project}/secrets/{name}", tag = "secrets", operation_id = "setSecret",
    params(("project" = String, Path, description = "The project's handle"), ("name" = String, Path, description = "The secret's name")),
    request_body = NewSecretValue,
    responses((status = 200, body = SecretSet, description = "It has that value"), (status = 201, body = SecretSet, description = "It is a new one"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, name)): Path<(String, String)>,
    Json(new): Json<NewSecretValue>,
) -> Result<Response> {
    let (secret, is_new) = state.app.set_secret(&entered, &name, new).await?;
    json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &secret)
}
