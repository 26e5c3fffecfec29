//! Go back to a checkpoint.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::checkpoint::RestoreRequest;
use stead_domain::environment::Environment;

use super::parse_checkpoint;
use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, environment_outcome};

/// Give an environment the files of a checkpoint, its own or another one's of the project. What it has now goes, unless `save` says otherwise.
///
/// What runs in it is stopped, unless `on_running` says `busy`.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}/restore", tag = "checkpoints", operation_id = "restoreCheckpoint",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("checkpoint_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<RestoreRequest>,
    responses((status = 200, body = Environment, description = "It has the files of the checkpoint"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    OptionalJson(request): OptionalJson<RestoreRequest>,
) -> Result<Response> {
    let (environment, id) = (parse_id(&environment)?, parse_checkpoint(&id)?);
    environment_outcome(StatusCode::OK, state.app.restore_checkpoint(&entered, environment, id, request).await?)
}
