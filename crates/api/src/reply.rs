//! From outcomes and errors to HTTP.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use stead_app::{Outcome, Reply};
use stead_domain::environment::Environment;
use stead_domain::{Code, Error};

/// What a handler answers when it fails. The request id is added on the way out, by the door.
pub struct Failure(pub Error);

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// The error itself rides along to the door, which logs it and writes the body.
#[derive(Clone)]
pub struct Carried(pub std::sync::Arc<Error>);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        if matches!(self.0.code(), Code::ServiceUnavailable | Code::IdempotencyInProgress) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response.extensions_mut().insert(Carried(std::sync::Arc::new(self.0)));
        response
    }
}

pub fn json(status: StatusCode, value: &impl Serialize) -> Result<Response> {
    let body = serde_json::to_vec(value).map_err(Error::internal)?;
    Ok(raw(status, body))
}

fn raw(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A new outcome with its status, or the reply that the first request had.
pub fn outcome<T: Serialize>(status: StatusCode, outcome: Outcome<T>) -> Result<Response> {
    match outcome {
        Outcome::New(value) => json(status, &value),
        Outcome::Again(reply) => Ok(again(reply)),
    }
}

fn again(reply: Reply) -> Response {
    let mut response = raw(StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK), reply.body);
    response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    response
}

/// An environment with the tag that `If-Match` takes.
pub fn environment(status: StatusCode, environment: &Environment) -> Result<Response> {
    let mut response = json(status, environment)?;
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", environment.revision)) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

pub fn environment_outcome(status: StatusCode, outcome: Outcome<Environment>) -> Result<Response> {
    match outcome {
        Outcome::New(value) => environment(status, &value),
        Outcome::Again(reply) => Ok(again(reply)),
    }
}
