//! Remove what is old.

use axum::extract::State as Shared;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use stead_app::system::PrunedItem;
use utoipa::ToSchema;

use crate::State;
use crate::body::OptionalJson;
use crate::door::Who;
use crate::openapi::ChangeErrors;
use crate::reply::{Result, outcome};

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

/// Remove what is older than the retention settings keep it, and workspaces that a restore left without a record.
///
/// Each project from which rows went keeps an audit record of how many.
#[utoipa::path(
    post, path = "/v1/system/prune", tag = "system", operation_id = "prune",
    params(("Idempotency-Key" = Option<String>, Header, description = "Your word for this attempt; a repetition has the same outcome")),
    request_body = Option<PruneRequest>,
    responses((status = 200, body = Pruned, description = "What went, or would go"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    Who(caller): Who,
    OptionalJson(PruneRequest { dry_run }): OptionalJson<PruneRequest>,
) -> Result<Response> {
    let prune = async { Ok(Pruned { dry_run, items: state.app.prune(&caller, dry_run).await? }) };
    outcome(StatusCode::OK, state.app.once(&caller, prune).await?)
}
