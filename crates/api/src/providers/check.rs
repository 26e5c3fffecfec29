//! Ask a provider whether it can be used.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::provider::ProviderCheck;

use crate::State;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Ask a provider whether it can be used now.
#[utoipa::path(
    post, path = "/v1/projects/{project}/providers/{name}/check", tag = "providers", operation_id = "checkProvider",
    params(("project" = String, Path, description = "The project's handle"), ("name" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    responses((status = 200, body = ProviderCheck, description = "What it said"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, name)): Path<(String, String)>) -> Result<Response> {
    outcome(StatusCode::OK, state.app.once(&entered.caller, state.app.check_provider(&name)).await?)
}
