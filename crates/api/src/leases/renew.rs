//! Renew.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::lease::{RenewReply, RenewRequest};

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::leases::parse_lease;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

/// Begin the time of a lease anew. The reply says how long it lasts and whether its holder should finish up.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/leases/{lease_id}/renew", tag = "leases", operation_id = "renewLease",
    params(("project" = String, Path, description = "The project's handle"), ("lease_id" = String, Path), ("Stead-Lease" = Option<String>, Header, description = "The token of the lease; it decides alone whose the call is")),
    request_body = Option<RenewRequest>,
    responses((status = 200, body = RenewReply, description = "It is held for so much longer"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(request): OptionalJson<RenewRequest>,
) -> Result<Response> {
    json(StatusCode::OK, &state.app.renew_lease(&entered, parse_lease(&id)?, request).await?)
}
