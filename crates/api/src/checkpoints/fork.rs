//! Begin other environments with the files of one.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_app::checkpoints::Forks;
use stead_domain::checkpoint::ForkRequest;

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Make one or more environments that begin with the files of a checkpoint, or with those that are there now.
///
/// Each has the definition and an identity of its own: neither secrets nor a lease come along.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/fork", tag = "checkpoints", operation_id = "forkEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<ForkRequest>,
    responses((status = 201, body = Forks, description = "They are ready"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(request): OptionalJson<ForkRequest>,
) -> Result<Response> {
    outcome(StatusCode::CREATED, state.app.fork_environment(&entered, parse_id(&id)?, request).await?)
}
