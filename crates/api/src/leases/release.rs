//! Release.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::lease::{LeaseView, ReleaseRequest};

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::leases::parse_lease;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

/// Let go of an environment. What still runs in it is stopped first. A lease that has ended is answered as it ended.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/leases/{lease_id}/release", tag = "leases", operation_id = "releaseEnvironmentLease",
    params(("project" = String, Path, description = "The project's handle"), ("lease_id" = String, Path), ("Stead-Lease" = Option<String>, Header, description = "The token of the lease; it decides alone whose the call is")),
    request_body = Option<ReleaseRequest>,
    responses((status = 200, body = LeaseView, description = "It has ended"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(request): OptionalJson<ReleaseRequest>,
) -> Result<Response> {
    json(StatusCode::OK, &state.app.release_lease(&entered, parse_lease(&id)?, request).await?)
}
