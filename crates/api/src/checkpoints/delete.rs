//! Delete a checkpoint.

use axum::extract::{Path, State as Shared};
use http::StatusCode;

use super::parse_checkpoint;
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::Result;

/// Delete a checkpoint. What environments and other checkpoints need of it stays.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}", tag = "checkpoints", operation_id = "deleteCheckpoint",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("checkpoint_id" = String, Path)),
    responses((status = 204, description = "It is gone"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    query: Query,
) -> Result<StatusCode> {
    query.end()?;
    state.app.delete_checkpoint(&entered, parse_id(&environment)?, parse_checkpoint(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
