//! How it stands with a ticket.

use std::time::Duration as Time;

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use stead_domain::duration::Duration;
use stead_domain::lease::AcquireReply;

use crate::State;
use crate::door::In;
use crate::leases::{acquired, parse_ticket};
use crate::openapi::AnyErrors;
use crate::query::Query;
use crate::reply::Result;

/// How it stands with a place in the queue: the lease when it was granted, else the ticket. Only whoever drew it sees it.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/tickets/{ticket_id}", tag = "leases", operation_id = "getTicket",
    params(("project" = String, Path, description = "The project's handle"), ("ticket_id" = String, Path), ("wait" = Option<Duration>, Query, description = "How long to wait for news, up to a minute")),
    responses((status = 200, body = AcquireReply, description = "It is the caller's"), (status = 202, body = AcquireReply, description = "It is not, or not yet: `ticket.status` says which"), AnyErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
) -> Result<Response> {
    let wait = query.parsed::<Duration>("wait")?.map_or(Time::ZERO, Time::from);
    query.end()?;
    let id = parse_ticket(&id)?;
    // A server that ends does not wait for whoever waits.
    let reply = tokio::select! {
        reply = state.app.get_ticket(&entered, id, wait) => reply?,
        () = state.stopping.cancelled() => state.app.get_ticket(&entered, id, Time::ZERO).await?,
    };
    acquired(&reply)
}
