//! Copy a file or a directory.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::files::{FileOrder, FileTransfer};

use super::{asked, done};
use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

/// Copy a file, a link as a link, or a directory with everything in it, within an environment.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/files/copy", tag = "files", operation_id = "copyEnvironmentFile",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = FileTransfer,
    responses((status = 204, description = "It is there"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(transfer): Json<FileTransfer>,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let (from, to) = asked(&state, &entered, id, transfer.paths()).await?;
    let order = FileOrder::Copy { from, to, overwrite: transfer.overwrite };
    Ok(done(state.app.change_files(&entered, id, order).await?, StatusCode::NO_CONTENT))
}
