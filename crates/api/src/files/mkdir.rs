//! Make a directory.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::files::{FileOrder, NewDirectory, named, parse_mode};

use super::done;
use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

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
    let path = named("path", new.path.as_deref(), new.path_bytes.as_deref())?;
    let mode = new.mode.as_deref().map(parse_mode).transpose()?;
    let order = FileOrder::MakeDirectory { path, mode, parents: new.parents };
    Ok(done(state.app.change_files(&entered, parse_id(&id)?, order).await?, StatusCode::NO_CONTENT))
}
