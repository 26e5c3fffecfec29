//! The leases of a project.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_app::leases::LeaseQuery;
use stead_domain::lease::LeaseView;
use stead_domain::page::Page;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// The leases of a project, the latest first: those that are held, or with `ended` all of them.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/leases", tag = "leases", operation_id = "listLeases",
    params(("project" = String, Path, description = "The project's handle"), ("ended" = Option<bool>, Query, description = "Those that have ended as well"), ("implicit" = Option<bool>, Query, description = "Those that calls took for themselves as well; true when it is left out"), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out")),
    responses((status = 200, body = Page<LeaseView>, description = "A page"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, mut query: Query) -> Result<Response> {
    let page = query.page()?;
    let (ended, implicit) = (query.parsed::<bool>("ended")?.unwrap_or(false), query.parsed::<bool>("implicit")?.unwrap_or(true));
    query.end()?;
    let wanted = LeaseQuery { live: !ended, explicit: !implicit, ..LeaseQuery::default() };
    json(StatusCode::OK, &state.app.list_leases(&entered, wanted, page).await?)
}
