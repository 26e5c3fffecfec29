//! The projects that the caller can see.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_domain::page::Page;
use stead_domain::project::Project;

use crate::State;
use crate::door::Who;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// The projects that the caller can see, newest first.
#[utoipa::path(
    get, path = "/v1/projects", tag = "projects", operation_id = "listProjects",
    params(("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out")),
    responses((status = 200, body = Page<Project>, description = "A page"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, Who(caller): Who, mut query: Query) -> Result<Response> {
    let page = query.page()?;
    query.end()?;
    json(StatusCode::OK, &state.app.list_projects(&caller, page).await?)
}
