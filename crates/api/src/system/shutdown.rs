//! End the server.

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::State;
use crate::body::OptionalJson;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownRequest {
    /// Also stop the commands that are running.
    #[serde(default)]
    all: bool,
}

/// End the server. Requests under way finish; commands that run go on unless `all` is set.
///
/// An `Idempotency-Key` is taken and has no effect: a server that is asked twice ends once.
#[utoipa::path(
    post, path = "/v1/system/shutdown", tag = "system", operation_id = "shutdown",
    params(),
    request_body = Option<ShutdownRequest>,
    responses((status = 202, description = "It ends"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, OptionalJson(request): OptionalJson<ShutdownRequest>) -> Result<Response> {
    tracing::info!(all = request.all, "asked to shut down");
    state.shutdown.notify_one();
    Ok(StatusCode::ACCEPTED.into_response())
}
