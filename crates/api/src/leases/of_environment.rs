//! The leases of an environment.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_app::leases::LeaseQuery;
use stead_domain::lease::LeaseView;
use stead_domain::page::Page;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// Who held an environment, the latest first. Those who share a sandbox share its leases.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/leases", tag = "leases", operation_id = "listEnvironmentLeases",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out")),
    responses((status = 200, body = Page<LeaseView>, description = "A page"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
) -> Result<Response> {
    let page = query.page()?;
    query.end()?;
    let wanted = LeaseQuery { environment: Some(parse_id(&id)?), ..LeaseQuery::default() };
    json(StatusCode::OK, &state.app.list_leases(&entered, wanted, page).await?)
}
