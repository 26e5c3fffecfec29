//! Tickets: who waits asks how it stands, with a long poll if it likes, or gives up its place.

use std::time::Duration;

use stead_domain::ids::{PrincipalId, ProjectId, TicketId};
use stead_domain::lease::{AcquireReply, Event, LeaseStage, TicketRecord, TicketStatus, TicketView};
use stead_domain::{Code, Error, Result};
use stead_store::{Dialect, Unit, desks, tickets};
use tokio::time::Instant;

use super::deciding::Asked;
use super::standing::{Standing, standing_in};
use super::view::ticket_view;
use crate::{App, Entered};

/// How long one long poll lasts at most.
const LONGEST_POLL: Duration = Duration::from_secs(60);
/// Another server may have decided.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Everything that happens here is told; the environment may have been deleted under it.
const LOOK_AGAIN_HERE: Duration = Duration::from_secs(5);

fn served(record: &TicketRecord) -> Error {
    let (id, lease) = (record.ticket.id, record.ticket.lease);
    Error::new(Code::Conflict, format!("ticket `{id}` was served: lease `{lease}` came of it"))
        .detail("lease_id", lease.to_string())
        .suggestion("release the lease")
}

fn unknown(id: TicketId) -> Error {
    Error::not_found("ticket", id).suggestion("acquire the environment anew")
}

/// Whether waiting any longer would bring nothing.
fn is_settled(record: &TicketRecord, granted: Option<&Standing>) -> bool {
    match granted {
        Some(Standing::Lease { shown, .. }) => shown.stage.is_none_or(|stage| stage == LeaseStage::Active),
        Some(_) => true,
        None => record.status != TicketStatus::Waiting,
    }
}

/// Only who drew it sees it: what it comes to is a token.
async fn find_own(unit: &mut Unit, project: ProjectId, principal: PrincipalId, id: TicketId) -> Result<TicketRecord> {
    let found = tickets::find_in(unit, project, id).await?;
    found.filter(|found| found.ticket.wanted.principal == principal).ok_or_else(|| unknown(id))
}

impl App {
    /// How it stands: the lease with its token when it was granted, else the ticket. Waits for news of it for so long.
    pub async fn get_ticket(&self, entered: &Entered, id: TicketId, wait: Duration) -> Result<AcquireReply> {
        let deadline = Instant::now() + wait.min(LONGEST_POLL);
        let (record, granted) = self.look_at_ticket(entered, id).await?;
        if is_settled(&record, granted.as_ref()) || wait.is_zero() {
            return self.told_of(record, granted).await;
        }
        let waiter = self.waiters.of(record.ticket.lease);
        loop {
            let news = waiter.notified();
            tokio::pin!(news);
            // Before it is looked at again, so that nothing is missed.
            news.as_mut().enable();
            let (record, granted) = self.look_at_ticket(entered, id).await?;
            if is_settled(&record, granted.as_ref()) || Instant::now() >= deadline {
                return self.told_of(record, granted).await;
            }
            let again = deadline.min(Instant::now() + if self.store.dialect() == Dialect::Postgres { LOOK_AGAIN } else { LOOK_AGAIN_HERE });
            tokio::select! {
                () = news => {}
                () = tokio::time::sleep_until(again) => {}
                () = self.stopping.cancelled() => return self.told_of(record, granted).await,
            }
        }
    }

    /// The lease once it is its holder's, else the ticket.
    async fn told_of(&self, record: TicketRecord, granted: Option<Standing>) -> Result<AcquireReply> {
        match granted {
            Some(standing) if is_settled(&record, Some(&standing)) => self.told(record.ticket.lease, standing).await,
            _ => self.show_ticket(record).await,
        }
    }

    /// The ticket, and how it stands with the lease that came of it.
    async fn look_at_ticket(&self, entered: &Entered, id: TicketId) -> Result<(TicketRecord, Option<Standing>)> {
        let (office, project, principal) = (self.office(), entered.project, entered.caller.principal);
        self.store
            .glance(move |unit| {
                Box::pin(async move {
                    let record = find_own(unit, project, principal, id).await?;
                    let granted = match record.status {
                        TicketStatus::Granted => Some(standing_in(unit, &office, project, record.ticket.lease, None).await?),
                        _ => None,
                    };
                    Ok::<_, Error>((record, granted))
                })
            })
            .await
    }

    async fn ticket_record(&self, entered: &Entered, id: TicketId) -> Result<TicketRecord> {
        let (project, principal) = (entered.project, entered.caller.principal);
        self.store.glance(move |unit| Box::pin(async move { find_own(unit, project, principal, id).await })).await
    }

    async fn show_ticket(&self, record: TicketRecord) -> Result<AcquireReply> {
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
                    desks::claim(unit, sandbox).await?;
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
        let now = self.ticket_record(entered, id).await?;
        if now.status == TicketStatus::Granted {
            return Err(served(&record));
        }
        self.waiters.tell(record.ticket.lease);
        self.look_after_behind(vec![record.of.sandbox_id]);
        self.show_ticket(now).await?.ticket.ok_or_else(|| unknown(id))
    }
}
