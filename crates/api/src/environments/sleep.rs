//! Put an environment to sleep.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::environment::Environment;
use stead_domain::process_request::SleepRequest;

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, environment_outcome};

/// Put an environment to sleep: no process and no mount of it is left. Processes that run are in the way, unless `force` is set.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/sleep", tag = "processes", operation_id = "sleepEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<SleepRequest>,
    responses((status = 200, body = Environment, description = "It sleeps; the next command wakes it"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(SleepRequest { force }): OptionalJson<SleepRequest>,
) -> Result<Response> {
    environment_outcome(StatusCode::OK, state.app.sleep_environment(&entered, parse_id(&id)?, force).await?)
}
