//! Append to a file.

use axum::extract::{Path, Request, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::files::{FileOrder, FileWritten};

use super::{asked, mode, pass_on, path};
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::{Result, json};

fn order(mut query: Query) -> stead_domain::Result<FileOrder> {
    let order = FileOrder::Append { path: path(&mut query)?, offset: query.parsed("offset")?, mode: mode(&mut query)? };
    query.end()?;
    Ok(order)
}

/// Append the body to a file in an environment.
///
/// With `offset` it belongs there: what was written at that place before is not written again, so that a repetition does no harm and a long
/// transfer that was cut off goes on where it was.
#[utoipa::path(
    patch, path = "/v1/projects/{project}/environments/{environment_id}/files", tag = "files", operation_id = "appendEnvironmentFile",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "Relative ones start at the workspace, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8"), ("offset" = Option<u64>, Query, description = "Where in the file the body begins; at its end when it is left out"), ("mode" = Option<String>, Query, description = "Permissions in octal digits of a file that is made by this; 0644 when it is left out")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = FileWritten, description = "It is written"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
    request: Request,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let order = asked(&state, &entered, id, order(query)).await?;
    let writer = state.app.write_file(&entered, id, &order).await?;
    let written = pass_on(request.into_body(), writer).await?;
    json(StatusCode::OK, &FileWritten { size: written.size })
}
