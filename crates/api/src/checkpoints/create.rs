//! Make a checkpoint.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::checkpoint::{Checkpoint, NewCheckpoint};

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Seal the files of an environment as they are now. The reply waits until that is on the disk, unless `wait` says `sealed`.
///
/// The environment sleeps afterwards, and wakes for its next command. What runs in it is in the way, unless `on_running` says otherwise.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/checkpoints", tag = "checkpoints", operation_id = "createCheckpoint",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<NewCheckpoint>,
    responses((status = 201, body = Checkpoint, description = "It is sealed, and durable if that was waited for"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(new): OptionalJson<NewCheckpoint>,
) -> Result<Response> {
    outcome(StatusCode::CREATED, state.app.create_checkpoint(&entered, parse_id(&id)?, new).await?)
}
