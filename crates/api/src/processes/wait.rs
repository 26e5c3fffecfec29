//! Wait for the end.

use std::time::Duration as Time;

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::Error;
use stead_domain::duration::Duration;
use stead_domain::process::Process;

use crate::State;
use crate::door::In;
use crate::openapi::PlaceErrors;
use crate::processes::parse_ids;
use crate::query::Query;
use crate::reply::{Result, json};

const USUAL: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(300);

/// Wait until a process is over, or until the time is. The record says which: an `exit`, or none.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/processes/{process_id}/wait", tag = "processes", operation_id = "waitForProcess",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("process_id" = String, Path), ("timeout" = Option<Duration>, Query, description = "How long to wait, up to 5m; 30s when it is left out")),
    responses((status = 200, body = Process, description = "It is over, or still runs"), PlaceErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, environment, id)): Path<(String, String, String)>,
    mut query: Query,
) -> Result<Response> {
    let (environment, id) = parse_ids(&environment, &id)?;
    let limit = query.parsed::<Duration>("timeout")?.unwrap_or(USUAL);
    query.end()?;
    if limit > LONGEST {
        return Err(Error::field("timeout", format!("is longer than {LONGEST}")).suggestion("ask again when the time is over").into());
    }
    // A server that ends does not wait for whoever waits.
    let process = tokio::select! {
        waited = state.app.wait_for_process(&entered, environment, id, limit.into()) => waited?,
        () = state.stopping.cancelled() => state.app.wait_for_process(&entered, environment, id, Time::ZERO).await?,
    };
    json(StatusCode::OK, &process)
}
