//! Search files by content.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use stead_domain::Error;
use stead_domain::file_search::GrepLine;
use stead_domain::files::{FileOrder, GrepOrder};

use super::archive::body;
use super::{asked, limit, path_or_workspace};
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::Result;

const USUAL: u64 = 10_000;
const MOST: u64 = 10_000_000;
const MOST_CONTEXT: u64 = 100;

fn order(mut query: Query) -> stead_domain::Result<FileOrder> {
    let wanting = || Error::field("pattern", "must be given").suggestion("it is a regular expression, or a text with `fixed`");
    let order = GrepOrder {
        path: path_or_workspace(&mut query)?,
        pattern: query.text("pattern")?.filter(|pattern| !pattern.is_empty()).ok_or_else(wanting)?,
        fixed: query.flag("fixed")?,
        ignore_case: query.flag("ignore_case")?,
        globs: query.all("glob"),
        all: query.flag("all")?,
        context: query.parsed("context")?.unwrap_or(0),
        limit: limit(&mut query, USUAL, MOST)?,
    };
    query.end()?;
    if order.context > MOST_CONTEXT {
        return Err(Error::field("context", format!("must be 0 to {MOST_CONTEXT}")));
    }
    Ok(FileOrder::Grep(order))
}

/// Lines of files in an environment that match a regular expression, while they are found. An environment that sleeps is woken for it.
///
/// The answer is JSON on each line: `match` and `context` with the line, and `end` as the last one; an answer without `end` was cut off. Files
/// come in no order, the lines of a file in theirs. Files that hold a NUL are skipped, and so is what is hidden or named by ignore files
/// (`.gitignore`, `.ignore`) unless `all` is said. Of a line, 32 KiB are shown.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/files/grep", tag = "files", operation_id = "grepEnvironmentFiles",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "The workspace when it is left out; relative ones start there, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8"), ("pattern" = String, Query, description = "A regular expression, as ripgrep takes it by default"), ("fixed" = Option<bool>, Query, description = "The pattern is a text as it is"), ("ignore_case" = Option<bool>, Query, description = "Capital or small is the same"), ("glob" = Option<Vec<String>>, Query, description = "Only files whose name fits, as for `files/find`; may be repeated"), ("context" = Option<u64>, Query, maximum = 100, description = "Lines before and after each match"), ("all" = Option<bool>, Query, description = "Also what is hidden or ignored"), ("limit" = Option<u64>, Query, minimum = 1, maximum = 10000000, description = "The most lines that match; 10,000 when it is left out")),
    responses((status = 200, body = GrepLine, content_type = "application/x-ndjson", description = "One of these on each line"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let order = asked(&state, &entered, id, order(query)).await?;
    let mut response = Response::new(body(state.app.stream_files(&entered, id, &order).await?));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
