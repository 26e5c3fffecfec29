//! Put a repository into an environment.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::checkout::CheckoutRequest;
use stead_domain::process::Process;

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Put a repository into the environment, at one commit: cloned, or fetched where it is there already.
///
/// It is a process whose `purpose` is `checkout`: its stderr is the progress, it ends with 0 only when exactly what was asked for is there,
/// and has printed the commit to stdout then.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/checkouts", tag = "environments", operation_id = "checkOutRepository",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<CheckoutRequest>,
    responses((status = 201, body = Process, description = "It runs"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(request): OptionalJson<CheckoutRequest>,
) -> Result<Response> {
    outcome(StatusCode::CREATED, state.app.check_out(&entered, parse_id(&id)?, request).await?)
}
