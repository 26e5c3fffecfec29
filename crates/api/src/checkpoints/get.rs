//! One checkpoint.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::checkpoint::Checkpoint;

use super::parse_checkpoint;
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// One checkpoint.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}", tag = "checkpoints", operation_id = "getCheckpoint",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("checkpoint_id" = String, Path)),
    responses((status = 200, body = Checkpoint, description = "The checkpoint"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    query: Query,
) -> Result<Response> {
    query.end()?;
    json(StatusCode::OK, &state.app.get_checkpoint(&entered, parse_id(&environment)?, parse_checkpoint(&id)?).await?)
}
