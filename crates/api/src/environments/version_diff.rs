//! What two versions differ in.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_app::environments::VersionDiff;
use stead_domain::Error;

use crate::State;
use crate::door::In;
use crate::environments::{parse_id, parse_version};
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::{Result, json};

/// What two versions of a definition differ in.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/versions/diff", tag = "environments", operation_id = "diffEnvironmentVersions",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("from" = u64, Query, minimum = 1), ("to" = u64, Query, minimum = 1)),
    responses((status = 200, body = VersionDiff, description = "The differences, leaf by leaf"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
) -> Result<Response> {
    let (from, to) = (query.text("from")?, query.text("to")?);
    query.end()?;
    let from = from.ok_or_else(|| Error::field("from", "is needed"))?;
    let to = to.ok_or_else(|| Error::field("to", "is needed"))?;
    let id = parse_id(&id)?;
    json(StatusCode::OK, &state.app.diff_versions(&entered, id, parse_version(&from)?, parse_version(&to)?).await?)
}
