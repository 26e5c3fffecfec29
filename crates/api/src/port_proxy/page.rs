//! What is answered in place of a port: the API's error, or the same for people.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use stead_domain::ids::RequestId;
use stead_domain::{Error, Result};

use super::admission::wants_page;

pub fn is_for_people(headers: &HeaderMap) -> bool {
    wants_page(headers)
}

pub fn refusal(error: &Error, request_id: RequestId, for_people: bool) -> Response {
    let (body, kind) = if for_people {
        let next = error.suggested().map(|suggestion| format!("\n\n{suggestion}")).unwrap_or_default();
        (format!("{}{next}\n\n{} {request_id}\n", error.message(), error.code()), "text/plain; charset=utf-8")
    } else {
        (serde_json::to_string(&error.body(Some(&request_id.to_string()))).unwrap_or_default(), "application/json")
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(error.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// Sends a browser on to the address without the token, which is in a cookie from now on.
pub fn redirect(to: &str, cookie: &str) -> Result<Response> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(Error::internal);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, value(to)?);
    headers.insert(SET_COOKIE, value(cookie)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}
