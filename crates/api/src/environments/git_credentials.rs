//! A credential for git.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use stead_domain::repository::{GitCredential, GitCredentialRequest};

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

/// Ask for a credential with which git reads or writes one repository that the definition allows, for at most an hour.
///
/// Whoever asks holds the environment, by the token of its lease or as its principal, or takes it for this call. For `push` it may write, if
/// the server lets it; for `clone` and `fetch` it only reads.
#[utoipa::path(
    post, path = "/v1/projects/{project}/environments/{environment_id}/git/credentials", tag = "environments", operation_id = "createEnvironmentGitCredential",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("Stead-Lease" = Option<String>, Header, description = "The token of a lease of the environment")),
    request_body = GitCredentialRequest,
    responses((status = 200, body = GitCredential, description = "The credential"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    Json(request): Json<GitCredentialRequest>,
) -> Result<Response> {
    let credential = state.app.git_credential(&entered, parse_id(&id)?, request).await?;
    let mut response = json(StatusCode::OK, &credential)?;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
