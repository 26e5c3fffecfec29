//! What differs between two checkpoints, or between one and now.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_app::checkpoints::DiffQuery;
use stead_domain::changes::RelativePath;
use stead_domain::checkpoint_diff::Differences;

use super::parse_checkpoint;
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// What differs in the workspace between a checkpoint and another one, or what is there now: names and sizes, and with `text` also lines.
///
/// Pages join without a gap while nothing in the environment writes. With `text` a page may end earlier than `limit` says.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/checkpoints/{checkpoint_id}/diff", tag = "checkpoints", operation_id = "diffCheckpoint",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("checkpoint_id" = String, Path), ("to" = Option<String>, Query, description = "The checkpoint to compare with; what is there now when it is left out"), ("path" = Option<String>, Query, description = "Only this file, with the lines that differ"), ("text" = Option<bool>, Query, description = "Also the lines that differ"), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out")),
    responses((status = 200, body = Differences, description = "A page"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    mut query: Query,
) -> Result<Response> {
    let page = query.page()?;
    let wanted = DiffQuery {
        to: query.text("to")?.filter(|to| to != "now").map(|to| parse_checkpoint(&to)).transpose()?,
        path: query.text("path")?.map(|path| RelativePath::parse("path", path.as_bytes())).transpose()?,
        text: query.flag("text")?,
    };
    query.end()?;
    let (environment, id) = (parse_id(&environment)?, parse_checkpoint(&id)?);
    json(StatusCode::OK, &state.app.diff_checkpoint(&entered, environment, id, wanted, page).await?)
}
