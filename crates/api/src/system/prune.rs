//! Remove what is old.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use stead_app::system::PrunedItem;
use utoipa::ToSchema;

use crate::State;
use crate::body::OptionalJson;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, json};

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneRequest {
    /// Only say what would go.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, ToSchema)]
pub struct Pruned {
    dry_run: bool,
    items: Vec<PrunedItem>,
}

/// Remove what is older than the retention settings keep it.
#[utoipa::path(
    post, path = "/v1/system/prune", tag = "system", operation_id = "prune",
    params(),
    request_body = Option<PruneRequest>,
    responses((status = 200, body = Pruned, description = "What went, or would go"), ChangeErrors),
)]
pub async fn handler(Shared(state): Shared<State>, OptionalJson(request): OptionalJson<PruneRequest>) -> Result<Response> {
    json(StatusCode::OK, &Pruned { dry_run: request.dry_run, items: state.app.prune(request.dry_run).await? })
}
