//! Ends a session.

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};

use super::identity::{SESSION, cookie, is_secure, keep};
use crate::State;
use crate::openapi::GithubErrors;

/// Sign out: the browser keeps nothing, and GitHub takes the token back.
#[utoipa::path(
    post, path = "/api/auth/github/logout", tag = "github", operation_id = "endGithubLogin", security(()),
    responses((status = 204, description = "Signed out, or nobody was signed in"), GithubErrors),
)]
pub async fn handler(Shared(state): Shared<State>, headers: HeaderMap) -> Response {
    if let Some(kept) = cookie(&headers, SESSION)
        && let Err(error) = state.app.end_github_session(&kept).await
    {
        tracing::warn!(%error, "a token of somebody who signed out could not be taken back; it ends by itself");
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    keep(response.headers_mut(), is_secure(&headers, &state), SESSION, "", "/", 0);
    response
}
