//! The secrets of a project.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use stead_domain::page::Page;
use stead_domain::secret::Secret;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// The names of a project's secrets, with who set them and when; never their values.
#[utoipa::path(
    get, path = "/v1/projects/{project}/secrets", tag = "secrets", operation_id = "listSecrets",
    params(("project" = String, Path, description = "The project's handle"), ("cursor" = Option<String>, Query, description = "Where the page begins, from `next_cursor` of the one before"), ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Rows of a page; 50 when it is left out")),
    responses((status = 200, body = Page<Secret>, description = "A page"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, mut query: Query) -> Result<Response> {
    let page = query.page()?;
    query.end()?;
    json(StatusCode::OK, &state.app.list_secrets(&entered, page).await?)
}
