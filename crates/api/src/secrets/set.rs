//! Set a secret.

use axum::extract::{Path, Request, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::Error;
use stead_domain::error::parse_json;
use stead_domain::secret::{NewSecretValue, SecretSet};

use crate::State;
use crate::body::read_json;
use crate::door::In;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

/// Give a secret a value. Processes that begin afterwards get it. The same value again changes nothing.
#[utoipa::path(
    put, path = "/v1/projects/{project}/secrets/{name}", tag = "secrets", operation_id = "setSecret",
    params(("project" = String, Path, description = "The project's handle"), ("name" = String, Path, description = "The secret's name"), ("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = NewSecretValue,
    responses((status = 200, body = SecretSet, description = "It has that value"), (status = 201, body = SecretSet, description = "It is a new one"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response> {
    let new = parse_json(&read_json(request).await?).map_err(|error| unreadable(&error))?;
    let (secret, is_new) = state.app.set_secret(&entered, &name, new).await?;
    outcome(if is_new { StatusCode::CREATED } else { StatusCode::OK }, secret)
}

/// What is wrong with a body, without a word of it: it was meant to hold a value.
fn unreadable(error: &Error) -> Error {
    Error::new(error.code(), "the body is neither {\"value\": \"...\"} nor {\"value_base64\": \"...\"}")
        .suggestion("send one JSON object with one of these fields, and a string in it")
}
