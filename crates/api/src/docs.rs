//! The interactive reference, served from the binary: no outside address is needed or named.

use axum::Router;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::reply::Failure;
use crate::{State, door};

pub fn router() -> Router<State> {
    let ui = SwaggerUi::new("/docs").config(Config::new(["/openapi.json"]).validator_url("none").try_it_out_enabled(true));
    Router::from(ui).layer(from_fn(lock_down))
}

/// The page may load and call nothing but this server.
async fn lock_down(request: axum::extract::Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = next.run(request).await;
    // The pages have no error bodies of their own.
    match response.status() {
        StatusCode::NOT_FOUND => response = Failure(door::nothing_at(&path)).into_response(),
        StatusCode::METHOD_NOT_ALLOWED => response = Failure(door::no_method(&method)).into_response(),
        _ => {}
    }
    let policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
