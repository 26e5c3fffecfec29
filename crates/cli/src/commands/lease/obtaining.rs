//! Getting a lease: asked for under one key however often, and waited for in the queue. Whoever gives up leaves neither a place in the queue
//! nor a lease behind.

use std::pin::pin;
use std::time::Duration;

use stead_client::{Client, ClientError, NewLease};
use stead_domain::duration::Duration as Stated;
use stead_domain::environment::Environment;
use stead_domain::ids::{LeaseId, TicketId};
use stead_domain::lease::{AcquireReply, LeaseStage, LeaseToken, LeaseView, TicketStatus, TicketView};
use stead_domain::{Code, Error};
use tokio::time::Instant;

use super::queue::Queue;
use super::words;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::session::patience::patiently;
use crate::session::{Progress, Signals};

/// How long whoever gives up waits for the server to hear of it.
const GIVING_UP: Duration = Duration::from_secs(10);
/// How soon one that is not through its barrier, and came of no ticket, is asked for again.
const AGAIN: Duration = Duration::from_millis(200);

pub struct Granted {
    pub reply: AcquireReply,
    pub lease: LeaseView,
    pub token: LeaseToken,
    /// When this was asked for: its time is counted from here.
    pub sent: Instant,
}

/// What is known so far.
#[derive(Default)]
struct Place {
    ticket: Option<TicketId>,
    lease: Option<LeaseId>,
}

pub async fn obtain(
    invocation: &Invocation<'_>,
    client: &Client,
    environment: &Environment,
    new: &NewLease,
    signals: &mut Signals,
) -> Result<Granted> {
    let mut place = Place::default();
    let outcome = wait(invocation, client, environment, new, signals, &mut place).await;
    if outcome.is_err() {
        // Whoever cannot be told finds out: a ticket has a deadline, and a lease that nobody renews ends.
        let _ = tokio::time::timeout(GIVING_UP, give_back(client, &place)).await;
    }
    outcome
}

async fn wait(
    invocation: &Invocation<'_>,
    client: &Client,
    environment: &Environment,
    new: &NewLease,
    signals: &mut Signals,
    place: &mut Place,
) -> Result<Granted> {
    let key = client.new_key();
    let mut queue = Queue::new(invocation, environment);
    let mut sent = Instant::now();
    let mut reply = {
        let progress = Progress::new();
        let text = format!("acquiring {}", environment.name);
        let mut asking = pin!(progress.during(&text, patiently(async || client.acquire(new, &key).await)));
        let mut given_up = None;
        let reply = loop {
            tokio::select! {
                reply = &mut asking => break reply?,
                // What came of it is known with the reply only; whoever is in a hurry leaves it to its deadline.
                signal = signals.ended() => match given_up.replace(signal) {
                    None => {}
                    Some(_) => return Err(Failure::Told(ExitStatus::signaled(signal))),
                },
            }
        };
        if let Some(signal) = given_up {
            place.note(&reply);
            return Err(Failure::Told(ExitStatus::signaled(signal)));
        }
        reply
    };
    loop {
        place.note(&reply);
        match (&reply.lease, &reply.ticket) {
            (Some(lease), _) if lease.stage == Some(LeaseStage::Active) => return granted(reply, sent),
            (Some(_), _) => queue.fencing(),
            (None, Some(ticket)) => match ticket.status {
                TicketStatus::Waiting => queue.waits(ticket),
                TicketStatus::TimedOut => return Err(still_held(environment, ticket, new.wait).into()),
                // The lease is told with the next answer.
                TicketStatus::Granted => {}
                TicketStatus::Withdrawn => return Err(withdrawn(environment).into()),
            },
            (None, None) => return Err(Error::new(Code::Unreachable, "the server answered with neither a lease nor a ticket").into()),
        }
        sent = Instant::now();
        let (ticket, interval) = (place.ticket, queue.interval());
        let asking = patiently(async || match ticket {
            Some(ticket) => client.get_ticket(ticket, interval).await,
            None => {
                tokio::time::sleep(AGAIN).await;
                client.acquire(new, &key).await
            }
        });
        reply = tokio::select! {
            reply = asking => reply?,
            signal = signals.ended() => {
                queue.over();
                invocation.printer.note("gave up the place in the queue");
                return Err(Failure::Told(ExitStatus::signaled(signal)));
            }
        };
    }
}

impl Place {
    fn note(&mut self, reply: &AcquireReply) {
        self.lease = reply.lease.as_ref().map(|lease| lease.id).or(self.lease);
        if let Some(ticket) = &reply.ticket {
            self.ticket = Some(ticket.id);
        }
    }
}

fn granted(reply: AcquireReply, sent: Instant) -> Result<Granted> {
    let lease = reply.lease.clone();
    let token = lease.as_ref().and_then(|lease| lease.token.clone());
    match (lease, token) {
        (Some(lease), Some(token)) => Ok(Granted { reply, lease, token, sent }),
        _ => Err(Error::new(Code::Unreachable, "the server gave a lease without its token")
            .suggestion("the server may be of another version: `stead status`")
            .into()),
    }
}

/// Leaves the queue; what came of the place in it meanwhile is released, which whoever acquired it may do without the token.
async fn give_back(client: &Client, place: &Place) -> stead_client::Result<()> {
    if let Some(lease) = place.lease {
        return patiently(async || client.release_lease(lease, None).await).await.map(drop);
    }
    let Some(ticket) = place.ticket else { return Ok(()) };
    match patiently(async || client.withdraw_ticket(ticket).await).await {
        Err(ClientError::Reply { status: 409, body }) => {
            let lease = body.error.details.as_ref().and_then(|details| details.get("lease_id")).and_then(|id| id.as_str()?.parse().ok());
            match lease {
                Some(lease) => client.release_lease(lease, None).await.map(drop),
                None => Ok(()),
            }
        }
        other => other.map(drop),
    }
}

fn still_held(environment: &Environment, ticket: &TicketView, wait: Option<Stated>) -> Error {
    let name = &environment.name;
    let after = wait.map(|wait| format!(" after {wait}")).unwrap_or_default();
    let message = match &ticket.held_by {
        Some(held) => format!("environment `{name}` is still held by {}{after}", words::named(&held.holder, held.note.as_deref())),
        None => format!("the wait for environment `{name}` was over{after}"),
    };
    let mut error = Error::new(Code::LeaseHeld, message)
        .recoverable(true)
        .detail("environment_id", environment.id.to_string())
        .detail("ticket_id", ticket.id.to_string());
    if let Some(held) = &ticket.held_by {
        error = error.detail("holder", held.holder.clone());
    }
    error.suggestion(format!(
        "wait longer with --wait, see who holds it with `stead lease watch {name}`, or have an owner end it with `stead lease break {name} \
         --reason TEXT`"
    ))
}

fn withdrawn(environment: &Environment) -> Error {
    let message = format!("the place in the queue for environment `{}` was given up elsewhere", environment.name);
    Error::new(Code::LeaseHeld, message).suggestion("ask for it again")
}
