//! Make a directory.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::files::{FileOrder, NewDirectory, named, parse_mode};

use super::{asked, done};
use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

fn order(new: &NewDirectory) -> stead_domain::Result<FileOrder> {
    let path = named("path", new.path.as_deref(), new.path_bytes.as_deref())?;
    let mode = new.mode.as_deref().map(parse_mode).transpose()?;
    Ok(FileOrder::MakeDirectory { path, mode, parents: new.parents })
}

/// Make a directory in an environment.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/files/mkdir", tag = "files", operation_id = "makeEnvironmentDirectory",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = NewDirectory,
    responses((status = 204, description = "It is there"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(new): Json<NewDirectory>,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let order = asked(&state, &entered, id, order(&new)).await?;
    Ok(done(state.app.change_files(&entered, id, order).await?, StatusCode::NO_CONTENT))
}
