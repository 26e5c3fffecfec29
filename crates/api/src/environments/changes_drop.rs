//! Throw away what an environment changed.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::changes::{ChangeSelection, SettledChanges};

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Throw away what an environment changed, all of it or what the paths hold. It sleeps afterwards; what runs in it is in the way.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/changes/drop", tag = "environments", operation_id = "dropEnvironmentChanges",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<ChangeSelection>,
    responses((status = 200, body = SettledChanges, description = "Those are gone"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(which): OptionalJson<ChangeSelection>,
) -> Result<Response> {
    outcome(StatusCode::OK, state.app.drop_changes(&entered, parse_id(&id)?, which).await?)
}
