//! Give up a place in the queue.

use axum::extract::{Path, State as Shared};
use axum::response::Response;
use http::StatusCode;
use stead_domain::lease::TicketView;

use crate::State;
use crate::door::In;
use crate::leases::parse_ticket;
use crate::openapi::AnyErrors;
use crate::reply::{Result, json};

/// Give up a place in the queue.
#[utoipa::path(
    delete, path = "/v1/projects/{project}/environments/tickets/{ticket_id}", tag = "leases", operation_id = "withdrawTicket",
    params(("project" = String, Path, description = "The project's handle"), ("ticket_id" = String, Path)),
    responses((status = 200, body = TicketView, description = "It waits no more"), AnyErrors),
)]
pub async fn handler(Shared(state): Shared<State>, In(entered): In, Path((_, id)): Path<(String, String)>) -> Result<Response> {
    json(StatusCode::OK, &state.app.withdraw_ticket(&entered, parse_ticket(&id)?).await?)
}
