//! Edit an environment.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::header::IF_MATCH;
use http::{HeaderMap, StatusCode};
use stead_app::environments::EnvironmentEdit;
use stead_domain::environment::Environment;
use stead_domain::{Error, Result as DomainResult};

use crate::State;
use crate::body::Json;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, environment};

/// Edit an environment. A definition that says something else becomes a new version.
#[utoipa::path(
    patch, path = "/v1/projects/{project}/environments/{environment_id}", tag = "environments", operation_id = "updateEnvironment",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("If-Match" = Option<String>, Header, description = "The `ETag` that the edit was made for")),
    request_body = EnvironmentEdit,
    responses((status = 200, body = Environment, description = "As it is now"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    headers: HeaderMap,
    Json(edit): Json<EnvironmentEdit>,
) -> Result<Response> {
    let expected = expected(&headers)?;
    environment(StatusCode::OK, &state.app.update_environment(&entered, parse_id(&id)?, expected, edit).await?)
}

/// The revision that `If-Match` names; none when it is absent or `*`.
fn expected(headers: &HeaderMap) -> DomainResult<Option<u64>> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let revision = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).and_then(|text| text.parse().ok());
    revision.map(Some).ok_or_else(|| Error::field("If-Match", "must be the `ETag` of a reply, or `*`"))
}
