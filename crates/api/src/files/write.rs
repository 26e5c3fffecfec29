//! Write a file.

use axum::body::Body;
use axum::extract::{Path, Request, State as Shared};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use stead_domain::error::parse_json;
use stead_domain::files::{FileOrder, FilePath, FileWritten, WriteFileRequest};

use super::{asked, mode, pass_on, path};
use crate::State;
use crate::body;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::{Result, json};

fn order(mut query: Query) -> stead_domain::Result<FileOrder> {
    let parents = query.parsed::<bool>("parents")?.unwrap_or(true);
    let order = FileOrder::Write { path: path(&mut query)?, mode: mode(&mut query)?, parents };
    query.end()?;
    Ok(order)
}

/// Write a file in an environment: it is there as a whole or not at all. An environment that sleeps is woken for it.
///
/// With `path`, the body is the file, of any length. Without, the body is JSON with `path` and `content`, and the answer is empty.
#[utoipa::path(
    put, path = "/v1/projects/{project}/environments/{environment_id}/files", tag = "files", operation_id = "writeEnvironmentFile",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "Relative ones start at the workspace, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8"), ("mode" = Option<String>, Query, description = "Permissions in octal digits; those that it has, or 0644"), ("parents" = Option<bool>, Query, description = "Whether directories are made that it lies in; true when it is left out")),
    request_body(content((WriteFileRequest = "application/json"), (Vec<u8> = "application/octet-stream"))),
    responses((status = 200, body = FileWritten, description = "It is written"), (status = 204, description = "It is written, for a JSON body"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
    request: Request,
) -> Result<Response> {
    let id = parse_id(&id)?;
    if query.is_empty() {
        let bytes = body::read_json(request).await?;
        let read = parse_json::<WriteFileRequest>(&bytes);
        let WriteFileRequest { path, content } = asked(&state, &entered, id, read).await?;
        let path = asked(&state, &entered, id, FilePath::parse("path", path)).await?;
        let order = FileOrder::Write { path, mode: None, parents: true };
        pass_on(Body::from(content), state.app.write_file(&entered, id, &order).await?).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let order = asked(&state, &entered, id, order(query)).await?;
    let writer = state.app.write_file(&entered, id, &order).await?;
    let written = pass_on(request.into_body(), writer).await?;
    json(StatusCode::OK, &FileWritten { size: written.size })
}
