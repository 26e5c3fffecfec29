//! The processes of an environment.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_app::processes::ProcessQuery;
use stead_domain::page::Page;
use stead_domain::process::{Process, ProcessStatus};

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// The processes of an environment, newest first.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/processes", tag = "processes", operation_id = "listProcesses",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out"), ("status" = Option<ProcessStatus>, Query), ("unfinished" = Option<bool>, Query, description = "Only those that are not over")),
    responses((status = 200, body = Page<Process>, description = "A page"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
) -> Result<Response> {
    let page = query.page()?;
    let filter = ProcessQuery { status: query.parsed::<ProcessStatus>("status")?, unfinished: query.flag("unfinished")? };
    query.end()?;
    json(StatusCode::OK, &state.app.list_processes(&entered, parse_id(&id)?, filter, page).await?)
}
