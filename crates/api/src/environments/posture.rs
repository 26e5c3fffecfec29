//! What an environment's posture says, and what holds of it.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use stead_domain::ids::EnvironmentId;
use stead_domain::posture::EffectiveField;
use stead_domain::provider::ProviderName;
use utoipa::ToSchema;

use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

#[derive(Serialize, ToSchema)]
pub struct Posture {
    environment_id: EnvironmentId,
    spec_version: u64,
    /// Who really serves it.
    provider: ProviderName,
    /// Whether the caller accepted fields that are not enforced.
    allow_unenforced: bool,
    fields: Vec<EffectiveField>,
}

/// What the definition declares, beside how far the provider enforces it.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/posture", tag = "environments", operation_id = "getEnvironmentPosture",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path)),
    responses((status = 200, body = Posture, description = "Field by field"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    query: Query,
) -> Result<Response> {
    query.end()?;
    let environment = state.app.get_environment(&entered, parse_id(&id)?).await?;
    let posture = Posture {
        environment_id: environment.id,
        spec_version: environment.spec_version,
        provider: environment.runtime.provider.unwrap_or(environment.provider),
        allow_unenforced: environment.allow_unenforced,
        fields: environment.runtime.posture,
    };
    json(StatusCode::OK, &posture)
}
