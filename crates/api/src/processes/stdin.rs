//! Write to stdin.

use axum::extract::{Path, Request, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::Error;
use stead_domain::process_request::StdinWritten;

use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::processes::parse_ids;
use crate::query::Query;
use crate::reply::{Result, json};
use crate::{State, body};

/// Write the body, as it is, to the stdin of a process. The offset makes a repetition harmless: what was written before is not written again.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/stdin", tag = "processes", operation_id = "writeProcessStdin",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("process_id" = String, Path), ("offset" = u64, Query, description = "Where in stdin the body begins"), ("end" = Option<bool>, Query, description = "Close stdin after it")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = StdinWritten, description = "How far stdin has been written, which may be less than was sent"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    mut query: Query,
    request: Request,
) -> Result<Response> {
    let (environment, id) = parse_ids(&environment, &id)?;
    let offset = query.parsed::<u64>("offset")?;
    let offset = offset.ok_or_else(|| Error::field("offset", "says where in stdin the body begins, 0 at first, and must be given"))?;
    let end = query.flag("end")?;
    query.end()?;
    let bytes = body::read(request.into_body()).await?;
    json(StatusCode::OK, &state.app.write_stdin(&entered, environment, id, offset, &bytes, end).await?)
}
