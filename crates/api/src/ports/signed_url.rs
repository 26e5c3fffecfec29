//! Make a signed URL.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::ports::{NewSignedUrl, SignedUrl, parse_port};

use crate::State;
use crate::body::OptionalJson;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// A URL of one port that whoever has it may use until it expires. It gives nothing else, and ends with the environment and with the key
/// or membership of whoever made it.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/ports/{port}/signed-url", tag = "ports", operation_id = "signEnvironmentPortUrl",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("port" = u16, Path), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body(content = NewSignedUrl, description = "May be left out"),
    responses((status = 201, body = SignedUrl, description = "Told once"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id, port)): Path<(String, String, String)>,
    OptionalJson(new): OptionalJson<NewSignedUrl>,
) -> Result<Response> {
    let (id, port) = (parse_id(&id)?, parse_port(&port)?);
    outcome(StatusCode::CREATED, state.app.sign_port_url(&entered, id, port, &new).await?)
}
