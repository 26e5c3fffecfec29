//! What makes sandboxes here.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use stead_domain::provider::ProviderView;
use utoipa::ToSchema;

use crate::State;
use crate::door::In;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

#[derive(Serialize, ToSchema)]
pub struct ProviderList {
    items: Vec<ProviderView>,
}

/// Every provider that Stead knows: whether it is configured, and what it enforces.
#[utoipa::path(
    get, path = "/v1/projects/{project}/providers", tag = "providers", operation_id = "listProviders",
    params(("project" = String, Path, description = "The project's handle")),
    responses((status = 200, body = ProviderList, description = "All of them"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(_): In, query: Query) -> Result<Response> {
    query.end()?;
    json(StatusCode::OK, &ProviderList { items: state.app.list_providers().await })
}
