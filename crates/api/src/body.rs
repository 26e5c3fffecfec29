//! Request bodies: bounded, read with a limit on patience, and with three different errors for missing, malformed and invalid.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use http::Method;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use stead_domain::error::parse_json;
use stead_domain::{Code, Error};
use tokio::time::Instant;

use crate::reply::Failure;

/// The largest JSON body. A definition of the largest allowed size fits many times.
pub const LARGEST: usize = 1 << 20;
/// How long the next part of a body may be in coming.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long all of it may take, so that nobody holds a connection with a byte now and then.
const WHOLE: Duration = Duration::from_secs(60);

fn too_large() -> Error {
    Error::new(Code::PayloadTooLarge, format!("the body is larger than {LARGEST} bytes"))
        .detail("limit_bytes", LARGEST)
        .suggestion("send less at once")
}

/// Reads a whole body, up to the limit.
pub async fn read(body: Body) -> Result<Bytes, Error> {
    let mut body = body;
    let mut whole = Vec::new();
    let end = Instant::now() + WHOLE;
    loop {
        let next = tokio::time::timeout_at(end.min(Instant::now() + PATIENCE), body.frame()).await;
        let Some(frame) = next.map_err(|_| late())? else { return Ok(whole.into()) };
        if let Ok(data) = frame.map_err(cut_off)?.into_data() {
            if whole.len() + data.len() > LARGEST {
                return Err(too_large());
            }
            whole.extend_from_slice(&data);
        }
    }
}

/// The next part of a body that may be of any length; none at its end.
pub async fn next_part(body: &mut Body) -> Result<Option<Bytes>, Error> {
    loop {
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.map_err(|_| late())?;
        let Some(frame) = frame else { return Ok(None) };
        match frame.map_err(cut_off)?.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => return Ok(Some(data)),
            // Trailers say nothing to us.
            Err(_) => {}
        }
    }
}

fn late() -> Error {
    Error::new(Code::BadRequest, "the body did not arrive in time").suggestion("send it without long pauses")
}

fn cut_off(cause: axum::Error) -> Error {
    Error::new(Code::BadRequest, "the body was cut off").cause(cause).suggestion("send it again")
}

/// Whether a body is passed on as it comes, and may be as long as it is.
pub fn takes_any_length(method: &Method, route: &str) -> bool {
    crate::files::takes_any_length(method, route) || crate::environments::import::takes_any_length(method, route)
}

/// A body that says beforehand that it is too large is refused before it is read.
pub fn check_announced(request: &Request, route: &str) -> Result<(), Error> {
    if takes_any_length(request.method(), route) {
        return Ok(());
    }
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()).and_then(|length| length.parse::<u64>().ok());
    match announced {
        Some(length) if length > LARGEST as u64 => Err(too_large()),
        _ => Ok(()),
    }
}

/// The bytes of a JSON body that must be there.
pub async fn read_json(request: Request) -> Result<Bytes, Error> {
    check_media_type(&request)?;
    let bytes = read(request.into_body()).await?;
    if bytes.is_empty() {
        return Err(Error::new(Code::MissingBody, "the request needs a JSON body").suggestion("send at least `{}`"));
    }
    Ok(bytes)
}

/// A JSON body that must be there.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Failure> {
        Ok(Self(parse_json(&read_json(request).await?)?))
    }
}

/// A JSON body that may be left out.
pub struct OptionalJson<T>(pub T);

impl<T: DeserializeOwned + Default, S: Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Failure> {
        let typed = check_media_type(&request);
        let bytes = read(request.into_body()).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        typed?;
        Ok(Self(parse_json(&bytes)?))
    }
}

/// No content type is taken for JSON: many a script sends none.
fn check_media_type(request: &Request) -> Result<(), Error> {
    let Some(given) = request.headers().get(CONTENT_TYPE) else { return Ok(()) };
    let essence = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    Err(Error::new(Code::UnsupportedMediaType, "bodies are `application/json`").suggestion("send `Content-Type: application/json`"))
}
