//! Run the setup script.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::environment::Environment;
use stead_domain::process_request::SetupRequest;

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, environment_outcome};

/// Run the definition's setup script, unless it has run to its end for this version; once more with `again`. Answers when it is over.
///
/// A script that fails makes the environment `failed`, with its last lines in `last_error`; the whole is the output of a process whose
/// `purpose` is `setup`.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/setup", tag = "processes", operation_id = "setUpEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<SetupRequest>,
    responses((status = 200, body = Environment, description = "The script has run to its end"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    OptionalJson(SetupRequest { again }): OptionalJson<SetupRequest>,
) -> Result<Response> {
    environment_outcome(StatusCode::OK, state.app.set_up_environment(&entered, parse_id(&id)?, again).await?)
}
