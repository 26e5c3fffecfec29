//! Leases and tickets: one verb, one file.

pub mod acquire;
pub mod break_lease;
pub mod get;
pub mod list;
pub mod of_environment;
pub mod release;
pub mod renew;
pub mod ticket;
pub mod transfer;
pub mod withdraw;

use axum::response::Response;
use http::{HeaderValue, StatusCode};
use stead_domain::ids::{LeaseId, TicketId};
use stead_domain::lease::AcquireReply;
use stead_domain::{Error, Result as Parsed};

use crate::reply::{Result, json};

/// A text that is no id is answered like an id that is nobody's.
pub(crate) fn parse_lease(text: &str) -> Parsed<LeaseId> {
    text.parse().map_err(|_| {
        Error::not_found("lease", text.chars().take(64).collect::<String>()).suggestion("`stead lease list` shows those that are there")
    })
}

pub(crate) fn parse_ticket(text: &str) -> Parsed<TicketId> {
    text.parse()
        .map_err(|_| Error::not_found("ticket", text.chars().take(64).collect::<String>()).suggestion("acquire the environment anew"))
}

/// The lease, and in the headers what a client needs that only sets headers; or the place in the queue.
pub(crate) fn acquired(reply: &AcquireReply) -> Result<Response> {
    let granted = reply.lease.is_some() || !reply.items.is_empty();
    let mut response = json(if granted { StatusCode::OK } else { StatusCode::ACCEPTED }, reply)?;
    if let Some(lease) = &reply.lease {
        let headers = response.headers_mut();
        if let Some(mut token) = lease.token.as_ref().and_then(|token| HeaderValue::from_str(&token.0).ok()) {
            token.set_sensitive(true);
            headers.insert("stead-lease", token);
        }
        headers.insert("stead-fence", HeaderValue::from(lease.fence));
    }
    Ok(response)
}
