//! The keys of a project.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_domain::api_key::ApiKey;
use stead_domain::page::Page;
use stead_domain::tags::TagFilter;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// The keys of a project, without the keys themselves.
#[utoipa::path(
    get, path = "/v1/projects/{project}/api-keys", tag = "api-keys", operation_id = "listAPIKeys",
    params(("project" = String, Path, description = "The project's handle"), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out"), ("tag" = Option<Vec<String>>, Query, description = "`Key:Value`, `Key:*` or `Key:a,b`; may be repeated")),
    responses((status = 200, body = Page<ApiKey>, description = "A page"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, mut query: Query) -> Result<Response> {
    let page = query.page()?;
    let filters = query.all("tag").iter().map(|tag| TagFilter::parse(tag)).collect::<stead_domain::Result<Vec<_>>>()?;
    query.end()?;
    json(StatusCode::OK, &state.app.list_api_keys(&entered, filters, page).await?)
}
