//! Another master key.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_domain::secret::KeyRotation;

use crate::State;
use crate::door::Who;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

/// Seal everything with another master key, while everything goes on.
#[utoipa::path(
    post, path = "/v1/system/rotate-key", tag = "system", operation_id = "rotateMasterKey",
    responses((status = 200, body = KeyRotation, description = "Which key seals now"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, Who(caller): Who) -> Result<Response> {
    json(StatusCode::OK, &state.app.rotate_master_key(&caller).await?)
}
