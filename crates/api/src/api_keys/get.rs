//! One key.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::api_key::ApiKey;

use crate::State;
use crate::api_keys::parse_id;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

/// One key, without the key itself.
#[utoipa::path(
    get, path = "/v1/projects/{project}/api-keys/{id}", tag = "api-keys", operation_id = "getAPIKey",
    params(("project" = String, Path, description = "The project's handle"), ("id" = String, Path)),
    responses((status = 200, body = ApiKey, description = "The key's record"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, id)): Path<(String, String)>) -> Result<Response> {
    json(StatusCode::OK, &state.app.get_api_key(&entered, parse_id(&id)?).await?)
}
