//! What is there under a name.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::files::FileEntry;

use super::{asked, path};
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// What is there under a path in an environment. A link is told as a link. An environment that sleeps is woken for it.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/files/stat", tag = "files", operation_id = "statEnvironmentFile",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "Relative ones start at the workspace, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8")),
    responses((status = 200, body = FileEntry, description = "What is there"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let path = asked(&state, &entered, id, path(&mut query).and_then(|path| query.end().map(|()| path))).await?;
    json(StatusCode::OK, &state.app.stat_file(&entered, id, path).await?)
}
