//! Acquire.

use axum::extract::State as Shared;
use axum::response::Response;
use stead_app::leases::AcquireEnvironment;
use stead_domain::lease::AcquireReply;

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::leases::acquired;
use crate::openapi::ChangeErrors;
use crate::reply::Result;

/// Acquire an environment, or make one and acquire that: for its holder alone to change, until the lease ends.
///
/// Without `bind: token` the lease is the principal's: two agents that share a key are one holder.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/acquire", tag = "leases", operation_id = "acquireEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition is told how it stands by now")),
    request_body = Option<AcquireEnvironment>,
    responses((status = 200, body = AcquireReply, description = "It is the caller's"), (status = 202, body = AcquireReply, description = "A place in the queue: ask for the ticket"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    OptionalJson(asked): OptionalJson<AcquireEnvironment>,
) -> Result<Response> {
    acquired(&state.app.acquire_environment(&entered, asked).await?)
}
