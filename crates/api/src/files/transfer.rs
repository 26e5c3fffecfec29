//! Move or copy a file or a directory within an environment.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_app::Entered;
use stead_domain::files::{FileOrder, FilePath, FileTransfer};

use super::{asked, done};
use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

/// Move a file or a directory within an environment, in one step where both lie on one file system.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/files/move", tag = "files", operation_id = "moveEnvironmentFile",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = FileTransfer,
    responses((status = 204, description = "It is there"), ChangeErrors),
)]
pub async fn r#move(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(transfer): Json<FileTransfer>,
) -> Result<Response> {
    let overwrite = transfer.overwrite;
    carry_out(&state, &entered, &id, &transfer, |from, to| FileOrder::Move { from, to, overwrite }).await
}

/// Copy a file, a link as a link, or a directory with everything in it, within an environment.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/files/copy", tag = "files", operation_id = "copyEnvironmentFile",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = FileTransfer,
    responses((status = 204, description = "It is there"), ChangeErrors),
)]
pub async fn copy(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(transfer): Json<FileTransfer>,
) -> Result<Response> {
    let overwrite = transfer.overwrite;
    carry_out(&state, &entered, &id, &transfer, |from, to| FileOrder::Copy { from, to, overwrite }).await
}

async fn carry_out(
    state: &State,
    entered: &Entered,
    id: &str,
    transfer: &FileTransfer,
    order: impl FnOnce(FilePath, FilePath) -> FileOrder,
) -> Result<Response> {
    let id = parse_id(id)?;
    let (from, to) = asked(state, entered, id, transfer.paths()).await?;
    Ok(done(state.app.change_files(entered, id, order(from, to)).await?, StatusCode::NO_CONTENT))
}
