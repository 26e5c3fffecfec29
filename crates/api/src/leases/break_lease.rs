//! Break.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::lease::{BreakRequest, LeaseView};

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::leases::parse_lease;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

/// End somebody's lease. What it left is stopped before anybody else is let in.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/leases/{lease_id}/break", tag = "leases", operation_id = "breakLease",
    params(("project" = String, Path, description = "The project's handle"), ("lease_id" = String, Path), ("Stead-Lease" = Option<String>, Header, description = "The token of the lease; it decides alone whose the call is")),
    request_body = BreakRequest,
    responses((status = 200, body = LeaseView, description = "It has ended"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(request): Json<BreakRequest>,
) -> Result<Response> {
    json(StatusCode::OK, &state.app.break_lease(&entered, parse_lease(&id)?, request).await?)
}
