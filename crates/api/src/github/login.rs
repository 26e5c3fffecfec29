//! Sends a browser to GitHub.

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use stead_app::repositories::LOGIN_TIME;
use stead_domain::Error;

use super::identity::{LOGIN, is_secure, keep};
use crate::State;
use crate::openapi::GithubErrors;
use crate::query::Query;
use crate::reply::Result;

/// Sign in with GitHub. The browser is sent there, and back to `/api/auth/github/callback`.
#[utoipa::path(
    get, path = "/api/auth/github/login", tag = "github", operation_id = "beginGithubLogin", security(()),
    params(("return_to" = Option<String>, Query, description = "A path of this server to go to afterwards")),
    responses((status = 302, description = "On to GitHub"), GithubErrors),
)]
pub async fn handler(Shared(state): Shared<State>, headers: HeaderMap, mut query: Query) -> Result<Response> {
    let return_to = query.text("return_to")?;
    query.end()?;
    let (address, kept) = state.app.begin_github_login(return_to.as_deref())?;
    let mut response = StatusCode::FOUND.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(&address).map_err(Error::internal)?);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    keep(response.headers_mut(), is_secure(&headers, &state), LOGIN, &kept, "/api/auth/github", LOGIN_TIME.as_secs());
    Ok(response)
}
