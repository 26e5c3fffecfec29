//! Who am I?

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::system::Identity;
use stead_domain::error::ErrorBody;

use crate::State;
use crate::door::Who;
use crate::reply::{Result, json};

/// Who the caller is.
#[utoipa::path(get, path = "/v1/identity", tag = "identity", responses((status = 200, body = Identity, description = "The caller"), (status = 401, body = ErrorBody, description = "No good credential")))]
pub async fn handler(Shared(state): Shared<State>, Who(caller): Who) -> Result<Response> {
    json(StatusCode::OK, &state.app.identity(&caller).await?)
}
