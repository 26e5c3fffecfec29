//! Transfer.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use stead_domain::lease::{AcquireReply, TransferRequest};

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::leases::{acquired, parse_lease};
use crate::openapi::ChangeErrors;
use crate::reply::Result;

/// Hand a lease on to somebody else without a gap: what runs goes on.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/leases/{lease_id}/transfer", tag = "leases", operation_id = "transferLease",
    params(("project" = String, Path, description = "The project's handle"), ("lease_id" = String, Path), ("Stead-Lease" = Option<String>, Header, description = "The token of the lease; it decides alone whose the call is"), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition is told the successor's token again")),
    request_body = TransferRequest,
    responses((status = 200, body = AcquireReply, description = "The successor's lease"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(request): Json<TransferRequest>,
) -> Result<Response> {
    acquired(&state.app.transfer_lease(&entered, parse_lease(&id)?, request).await?)
}
