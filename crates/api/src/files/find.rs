//! Find files by name.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::file_search::FilesFound;
use stead_domain::files::{FileOrder, FindOrder};

use super::{asked, limit, path_or_workspace};
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::{Result, json};

const USUAL: u64 = 1000;
const MOST: u64 = 10_000;

fn order(mut query: Query) -> stead_domain::Result<FileOrder> {
    let order = FindOrder {
        path: path_or_workspace(&mut query)?,
        pattern: query.text("pattern")?.filter(|pattern| !pattern.is_empty()),
        ignore_case: query.flag("ignore_case")?,
        all: query.flag("all")?,
        limit: limit(&mut query, USUAL, MOST)?,
    };
    query.end()?;
    Ok(FileOrder::Find(order))
}

/// Files and directories in an environment by their names, in the order of the paths. An environment that sleeps is woken for it.
///
/// A glob without `/` fits a name at any depth, any other one the path below `path`; `**` goes through directories. What is hidden or named
/// by ignore files (`.gitignore`, `.ignore`) is left out unless `all` is said. Of more than `limit`, those that were met first are told, and
/// `truncated` is true.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/files/find", tag = "files", operation_id = "findEnvironmentFiles",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "The workspace when it is left out; relative ones start there, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8"), ("pattern" = Option<String>, Query, description = "A glob such as `*.rs` or `src/**/*.rs`; everything when it is left out"), ("ignore_case" = Option<bool>, Query, description = "Capital or small is the same"), ("all" = Option<bool>, Query, description = "Also what is hidden or ignored"), ("limit" = Option<u64>, Query, minimum = 1, maximum = 10000, description = "1,000 when it is left out")),
    responses((status = 200, body = FilesFound, description = "What was found"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let order = asked(&state, &entered, id, order(query)).await?;
    let found = state.app.list_files(&entered, id, order).await?;
    json(StatusCode::OK, &FilesFound { items: found.entries, truncated: found.more })
}
