//! Remove a file or a directory.

use axum::extract::{Path, State as Shared};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use stead_domain::files::FileOrder;

use super::{asked, path};
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::Result;

fn order(mut query: Query) -> stead_domain::Result<FileOrder> {
    let order = FileOrder::Remove { path: path(&mut query)?, recursive: query.flag("recursive")? };
    query.end()?;
    Ok(order)
}

/// Remove a file, a link or a directory in an environment. What a link leads to stays.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/environments/{environment_id}/files", tag = "files", operation_id = "removeEnvironmentFile",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "Relative ones start at the workspace, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8"), ("recursive" = Option<bool>, Query, description = "A directory with everything in it")),
    responses((status = 204, description = "It is gone"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let order = asked(&state, &entered, id, order(query)).await?;
    state.app.change_files(&entered, id, order).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
