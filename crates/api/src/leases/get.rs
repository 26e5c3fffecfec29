//! One lease.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::lease::LeaseView;

use crate::State;
use crate::door::In;
use crate::leases::parse_lease;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

/// One lease, also after it has ended. Never its token.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/leases/{lease_id}", tag = "leases", operation_id = "getLease",
    params(("project" = String, Path, description = "The project's handle"), ("lease_id" = String, Path)),
    responses((status = 200, body = LeaseView, description = "The lease"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, id)): Path<(String, String)>) -> Result<Response> {
    json(StatusCode::OK, &state.app.get_lease(&entered, parse_lease(&id)?).await?)
}
