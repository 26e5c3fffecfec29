//! What left an environment, or wanted to.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::Error;
use stead_domain::egress::EgressEntry;
use stead_domain::page::Page;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// What left an environment or wanted to, oldest first.
///
/// `next_cursor` is there also when nothing more is, so that it can be asked with later. About 8 MiB are kept of each environment; a cursor to
/// what is no longer kept begins with the oldest entry.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/egress", tag = "environments", operation_id = "listEnvironmentEgress",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("tail" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Begin with the latest so many, without a cursor"), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out")),
    responses((status = 200, body = Page<EgressEntry>, description = "A page"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
) -> Result<Response> {
    let page = query.page()?;
    let tail = query.text("tail")?.map(|tail| tail.parse().map_err(|_| Error::field("tail", "must be a number between 1 and 200")));
    query.end()?;
    json(StatusCode::OK, &state.app.list_egress(&entered, parse_id(&id)?, tail.transpose()?, page).await?)
}
