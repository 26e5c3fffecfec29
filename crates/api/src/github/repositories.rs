//! Repositories of an installation, as a user of the app sees them.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use stead_domain::repository::InstallationRepositoryList;

use super::presented;
use crate::State;
use crate::openapi::GithubErrors;
use crate::reply::{Result, json};

/// List the repositories of an installation that the caller sees at GitHub.
#[utoipa::path(
    get, path = "/api/github/installations/{id}/repos", tag = "github", operation_id = "listGithubInstallationRepositories", security(()),
    params(("id" = String, Path, description = "The installation's id"), ("X-GitHub-Token" = Option<String>, Header, description = "A token of the caller's own at GitHub")),
    responses((status = 200, body = InstallationRepositoryList, description = "Those that GitHub shows to the caller"), GithubErrors),
)]
pub async fn handler(Shared(state): Shared<State>, Path(id): Path<String>, headers: HeaderMap) -> Result<Response> {
    state.app.check_git_host()?;
    json(StatusCode::OK, &state.app.github_repositories(presented(&headers, &state)?.as_ref(), &id).await?)
}
