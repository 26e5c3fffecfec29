//! Where the app is installed, as its user sees it.

use axum::extract::State as Shared;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use stead_domain::repository::InstallationList;

use super::presented;
use crate::State;
use crate::openapi::GithubErrors;
use crate::reply::{Result, json};

/// List the installations of the server's GitHub App that the caller sees at GitHub.
///
/// Needs the caller's own identity there: a session that began at `/api/auth/github/login`, or `X-GitHub-Token`.
#[utoipa::path(
    get, path = "/api/github/installations", tag = "github", operation_id = "listGithubInstallations", security(()),
    params(("X-GitHub-Token" = Option<String>, Header, description = "A token of the caller's own at GitHub")),
    responses((status = 200, body = InstallationList, description = "Those that GitHub shows to the caller"), GithubErrors),
)]
pub async fn handler(Shared(state): Shared<State>, headers: HeaderMap) -> Result<Response> {
    state.app.check_git_host()?;
    json(StatusCode::OK, &state.app.github_installations(presented(&headers, &state)?.as_ref()).await?)
}
