//! What an environment wrote beside its workspace.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::changes::{FileChange, RelativePath};
use stead_domain::page::Page;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// What an environment with `workspace_access: cow` changed, in the order of the paths.
///
/// Pages join without a gap while nothing in the environment writes.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/changes", tag = "environments", operation_id = "listEnvironmentChanges",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "Only this and what lies below it"), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out")),
    responses((status = 200, body = Page<FileChange>, description = "A page"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
) -> Result<Response> {
    let page = query.page()?;
    let below = query.text("path")?.map(|path| RelativePath::parse("path", path.as_bytes())).transpose()?;
    query.end()?;
    json(StatusCode::OK, &state.app.list_changes(&entered, parse_id(&id)?, below, page).await?)
}
