//! A browser comes back from GitHub.

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use stead_domain::{Code, Error};

use super::identity::{LOGIN, SESSION, cookie, is_secure, keep};
use crate::State;
use crate::openapi::GithubErrors;
use crate::query::Query;
use crate::reply::{Failure, Result};

/// Where GitHub sends a browser back to. Whoever did not begin in this browser, or comes twice, is refused.
#[utoipa::path(
    get, path = "/api/auth/github/callback", tag = "github", operation_id = "finishGithubLogin", security(()),
    params(("code" = Option<String>, Query, description = "GitHub's word for whoever signed in"), ("state" = Option<String>, Query, description = "What the browser was sent with")),
    responses((status = 200, description = "Signed in"), (status = 303, description = "Signed in; on to where the caller wanted to go"), GithubErrors),
)]
pub async fn handler(Shared(state): Shared<State>, headers: HeaderMap, mut query: Query) -> Response {
    let secure = is_secure(&headers, &state);
    let mut response = match finish(&state, &headers, &mut query, secure).await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    };
    // Whatever came of it: it was this once.
    keep(response.headers_mut(), secure, LOGIN, "", "/api/auth/github", 0);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn finish(state: &State, headers: &HeaderMap, query: &mut Query, secure: bool) -> Result<Response> {
    let refused = query.text("error")?.map(|_| "whoever was asked said no at GitHub");
    let (code, given) = (query.text("code")?, query.text("state")?);
    let failed =
        |why: &str| Failure(Error::new(Code::GithubLoginFailed, why.to_owned()).suggestion("begin again at /api/auth/github/login"));
    if let Some(why) = refused {
        return Err(failed(why));
    }
    let (Some(code), Some(given)) = (code, given) else { return Err(failed("`code` and `state` come back together")) };
    let kept = cookie(headers, LOGIN);
    let session = state.app.finish_github_login(kept.as_deref(), &given, &code).await?;
    let seconds = session.expires_at.since(state.app.context().now()).as_secs();
    let mut response = match &session.return_to {
        Some(path) => {
            let mut response = StatusCode::SEE_OTHER.into_response();
            response.headers_mut().insert(LOCATION, HeaderValue::from_str(path).map_err(Error::internal)?);
            response
        }
        None => "Signed in with GitHub. This page can be closed.\n".into_response(),
    };
    keep(response.headers_mut(), secure, SESSION, &session.cookie, "/", seconds);
    Ok(response)
}
