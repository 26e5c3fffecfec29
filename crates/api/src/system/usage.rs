//! What takes up space.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use stead_app::system::UsageItem;
use utoipa::ToSchema;

use crate::State;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

#[derive(Serialize, ToSchema)]
pub struct Usage {
    items: Vec<UsageItem>,
}

/// What takes up space, in rows and bytes.
#[utoipa::path(
    get, path = "/v1/system/usage", tag = "system", operation_id = "getUsage",
    params(),
    responses((status = 200, body = Usage, description = "All of it"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>) -> Result<Response> {
    json(StatusCode::OK, &Usage { items: state.app.usage().await? })
}
