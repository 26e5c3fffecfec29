//! List a directory.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::files::{FileEntry, FileOrder, FilePath};
use stead_domain::page::{Cursor, Page};
use stead_domain::{Error, hexadecimal};

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
    let path = path_or_workspace(&mut query)?;
    let recursive = query.flag("recursive")?;
    let limit = limit(&mut query, USUAL, MOST)?;
    let cursor = query.text("cursor")?.filter(|cursor| !cursor.is_empty());
    query.end()?;
    let after = cursor.map(|cursor| {
        let Cursor(digits) = Cursor::decode(&cursor)?;
        hexadecimal::read(&digits).map(FilePath::found).ok_or_else(|| Error::field("cursor", "was not made by this list"))
    });
    Ok(FileOrder::List { path, recursive, after: after.transpose()?, limit })
}

/// What a directory in an environment holds, in the order of the paths. An environment that sleeps is woken for it.
///
/// Pages join without a gap while nothing in the environment writes.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/files/list", tag = "files", operation_id = "listEnvironmentFiles",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "The workspace when it is left out; relative ones start there, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8"), ("recursive" = Option<bool>, Query, description = "Also what the directories in it hold"), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u64>, Query, minimum = 1, maximum = 10000, description = "Rows of a page; 1,000 when it is left out")),
    responses((status = 200, body = Page<FileEntry>, description = "A page"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let order = asked(&state, &entered, id, order(query)).await?;
    let listed = state.app.list_files(&entered, id, order).await?;
    let last = listed.entries.last().filter(|_| listed.more);
    let next_cursor = last.map(|last| Cursor(hexadecimal::write(last.exact_path().as_bytes())).encode());
    json(StatusCode::OK, &Page { items: listed.entries, has_more: next_cursor.is_some(), next_cursor })
}
