//! Make a key.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::identity::NewApiKey;
use stead_domain::api_key::ApiKeyWithSecret;

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Make a key for a member. The key is told in this reply only, and again to the same Idempotency-Key for ten minutes.
#[utoipa::path(
    post, path = "/v1/projects/{project}/api-keys", tag = "api-keys", operation_id = "createAPIKey",
    params(("project" = String, Path, description = "The project's handle"), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = NewApiKey,
    responses((status = 201, body = ApiKeyWithSecret, description = "The key, this once"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Json(new): Json<NewApiKey>) -> Result<Response> {
    outcome(StatusCode::CREATED, state.app.create_api_key(&entered, new).await?)
}
