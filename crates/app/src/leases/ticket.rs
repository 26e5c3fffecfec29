//! Tickets: who waits asks how it stands, with a long poll if it likes, or gives up its place.

use std::time::Duration;

use stead_domain::ids::TicketId;
use stead_domain::lease::{AcquireReply, Event, TicketStatus, TicketView};
use stead_domain::{Code, Error, Result};
use stead_store::{Dialect, tickets};
use tokio::time::Instant;

use super::deciding::Asked;
use super::view::ticket_view;
use crate::{App, Entered};

/// How long one long poll lasts at most.
const LONGEST_POLL: Duration = Duration::from_secs(60);
/// Another server may have decided.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

fn served(record: &stead_domain::lease::TicketRecord) -> Error {
    let (id, lease) = (record.ticket.id, record.ticket.lease);
    Error::new(Code::Conflict, format!("ticket `{id}` was served: lease `{lease}` came of it"))
        .detail("lease_id", lease.to_string())
        .suggestion("release the lease")
}

fn unknown(id: TicketId) -> Error {
    Error::not_found("ticket", id).suggestion("acquire the environment anew")
}

impl App {
    /// How it stands: the lease with its token when it was granted, else the ticket. Waits for news of it for so long.
    pub async fn get_ticket(&self, entered: &Entered, id: TicketId, wait: Duration) -> Result<AcquireReply> {
        let deadline = Instant::now() + wait.min(LONGEST_POLL);
        loop {
            let record = self.ticket_record(entered, id).await?;
            let waiter = self.waiters.of(record.ticket.lease);
            let news = waiter.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let record = self.ticket_record(entered, id).await?;
            match record.status {
                TicketStatus::Granted => {
                    let granted = self.as_it_stands(entered, record.ticket.lease).await?;
                    let active = granted.lease.as_ref().is_none_or(|lease| lease.stage == Some(stead_domain::lease::LeaseStage::Active));
                    if active {
                        return Ok(granted);
                    }
                    if Instant::now() >= deadline {
                        return self.show_ticket(entered, id).await;
                    }
                }
                TicketStatus::Waiting if Instant::now() < deadline => {}
                _ => return self.show_ticket(entered, id).await,
            }
            let again = deadline.min(Instant::now() + if self.store.dialect() == Dialect::Postgres { LOOK_AGAIN } else { LONGEST_POLL });
            tokio::select! {
                () = news => {}
                () = tokio::time::sleep_until(again) => {}
                () = self.stopping.cancelled() => return self.show_ticket(entered, id).await,
            }
        }
    }

    /// Only who drew it sees it: what it comes to is a token.
    async fn ticket_record(&self, entered: &Entered, id: TicketId) -> Result<stead_domain::lease::TicketRecord> {
        let project = entered.project;
        let found =
            self.store.glance(move |unit| Box::pin(async move { Ok::<_, Error>(tickets::find_in(unit, project, id).await?) })).await?;
        found.filter(|found| found.ticket.wanted.principal == entered.caller.principal).ok_or_else(|| unknown(id))
    }

    async fn show_ticket(&self, entered: &Entered, id: TicketId) -> Result<AcquireReply> {
        let record = self.ticket_record(entered, id).await?;
        let shown: TicketView = self.store.read(move |unit| Box::pin(async move { ticket_view(unit, &record).await })).await?;
        Ok(AcquireReply { environment: None, lease: None, items: Vec::new(), ticket: Some(shown) })
    }

    /// Gives up a place in the queue. What came of it already has to be released.
    pub async fn withdraw_ticket(&self, entered: &Entered, id: TicketId) -> Result<TicketView> {
        let record = self.ticket_record(entered, id).await?;
        if record.status == TicketStatus::Granted {
            return Err(served(&record));
        }
        let (office, sandbox, now) = (self.office(), record.of.sandbox_id, self.context.now());
        let decided = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    // Whoever is behind it moves up; whoever holds it is none of its business.
                    if !tickets::end(unit, id, TicketStatus::Withdrawn, now).await? {
                        return Ok(None);
                    }
                    super::decide_in(unit, &office, sandbox, None, Asked::by_itself(Event::Look)).await
                })
            })
            .await?;
        if let Some(decided) = &decided {
            self.follow_up(decided);
        }
        // It may have been served just before.
        if self.ticket_record(entered, id).await?.status == TicketStatus::Granted {
            return Err(served(&record));
        }
        self.waiters.tell(record.ticket.lease);
        self.look_after_behind(vec![record.of.sandbox_id]);
        self.show_ticket(entered, id).await?.ticket.ok_or_else(|| unknown(id))
    }
}
