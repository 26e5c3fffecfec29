//! One event, decided.

use super::desk::{Desk, PRIORITY, Stage, Ticket};
use super::settle::{Came, Hand, LINGER};
use super::{Answer, Decision, Directive, Effect, Event, LeaseBind, LeaseEnd, LeaseMode, OnBusy, Refusal, Seen, Wanted};
use crate::ids::{LeaseId, PrincipalId, TicketId};

/// The highest that a store can keep and still count on from.
const LAST_FENCE: u64 = i64::MAX as u64 - (1 << 32);

/// What becomes of the desk by an event.
pub fn decide(desk: Desk, event: Event, seen: Seen) -> Decision {
    let before = desk.barrier();
    let mut hand = Hand { desk, effects: Vec::new(), seen };
    hand.settle();
    // Whoever takes it away takes it from whoever would be next as well.
    if !matches!(event, Event::Acquire { on_busy: OnBusy::Preempt, .. }) {
        hand.hand_over();
    }
    let answer = match event {
        Event::Acquire { wanted, on_busy, priority, wait, lease, ticket } => hand.acquire(wanted, on_busy, priority, wait, lease, ticket),
        Event::Enter { principal, lease } => hand.enter(principal, lease),
        Event::Knock { principal } => hand.knock(principal),
        Event::Present { lease } => hand.present(lease),
        Event::Renew { lease } => hand.renew(lease),
        Event::Release { lease, work } => hand.release(lease, work),
        Event::Break { lease } => hand.revoke(lease),
        Event::Transfer { lease, to, bind, successor } => hand.transfer(lease, to, bind, successor),
        Event::BarrierDone { fence } => hand.barrier_done(fence),
        Event::BarrierStale { sent, highest } => hand.barrier_stale(sent, highest),
        Event::Withdraw { ticket } => hand.withdraw(ticket),
        Event::Sweep => hand.sweep(),
        Event::Look => Ok(Answer::Done),
    };
    hand.hand_over();
    hand.advance();
    hand.fence_readers_in();
    let Hand { desk, mut effects, .. } = hand;
    // A server that began knows of none that was sent before.
    if let Some(barrier) = desk.barrier().filter(|barrier| desk.unconfirmed || before != Some(*barrier)) {
        effects.push(Effect::Barrier(barrier));
    }
    // Whoever asked may have been let in by what came after.
    let answer = answer.map(|answer| told(&desk, answer));
    Decision { desk, effects, answer }
}

fn told(desk: &Desk, answer: Answer) -> Answer {
    match answer {
        Answer::Fencing { lease } => match desk.find(lease) {
            Some(found) if found.stage == Stage::Active && (!desk.unconfirmed || desk.rules.open) => Answer::Pass { fence: found.fence },
            _ => answer,
        },
        // It goes on when the steward has said that there is nobody else.
        Answer::Pass { .. } if desk.unconfirmed => desk.exclusive().map_or(answer, |holder| Answer::Fencing { lease: holder.id }),
        _ => answer,
    }
}

impl Hand {
    fn held(&self) -> Refusal {
        Refusal::Held { by: self.desk.leases.first().map(|lease| lease.id) }
    }

    fn acquire(
        &mut self,
        wanted: Wanted,
        on_busy: OnBusy,
        priority: i8,
        wait: u64,
        lease: LeaseId,
        ticket: TicketId,
    ) -> Result<Answer, Refusal> {
        // Asked once more, because a reply was lost.
        if self.desk.find(lease).is_some() {
            return Ok(Answer::Fencing { lease });
        }
        if self.desk.waiting.iter().any(|waiting| waiting.id == ticket) {
            return Ok(Answer::Queued { ticket });
        }
        if self.desk.rules.open && wanted.mode == LeaseMode::Exclusive {
            // Nobody is kept out, so there is nothing to hold; the lease is a name for whoever came.
            self.begin(lease, Wanted { mode: LeaseMode::Shared, ..wanted }, Came::ByItself);
            return Ok(Answer::Fencing { lease });
        }
        if let Some(own) = self.own_implicit(&wanted) {
            self.heard_of(own)?;
            // What it runs goes on under its new name. An implicit one has no longest time that it could leave to this one.
            self.succeed(own);
            self.begin(lease, wanted, Came::ByItself);
            return Ok(Answer::Fencing { lease });
        }
        if !self.desk.somebody_waits() && self.has_room(wanted.mode) {
            self.make_room();
            self.begin(lease, wanted, Came::ByItself);
            return Ok(Answer::Fencing { lease });
        }
        match on_busy {
            OnBusy::Fail => Err(self.held()),
            OnBusy::Wait => {
                let rank = self.seen.now.reading().saturating_sub(i64::from(priority) * PRIORITY);
                let at = self.desk.waiting.partition_point(|earlier| earlier.rank <= rank);
                let deadline = self.seen.now.after(wait);
                let drawn = Ticket { id: ticket, lease, wanted, priority, rank, wait, deadline };
                // Behind those that nobody has told us of, its place is not ours to say.
                if at < self.desk.waiting.len() || !self.desk.more_wait {
                    self.desk.waiting.insert(at, drawn);
                }
                self.effects.push(Effect::Waits(drawn));
                Ok(Answer::Queued { ticket })
            }
            OnBusy::Preempt => {
                for holder in self.desk.leases.iter().map(|lease| lease.id).collect::<Vec<_>>() {
                    self.end(holder, LeaseEnd::Revoked);
                }
                self.begin(lease, wanted, Came::ByItself);
                Ok(Answer::Fencing { lease })
            }
        }
    }

    /// An implicit lease of who asks for more. One that is to be known by its token cannot take over what runs: it belongs to others with
    /// the same name as well.
    fn own_implicit(&self, wanted: &Wanted) -> Option<LeaseId> {
        let own = self.desk.exclusive().filter(|lease| lease.implicit && lease.is_of(wanted.principal))?;
        let may = match own.stage {
            Stage::Active if self.seen.running => wanted.bind == LeaseBind::Principal,
            // Nothing runs under it.
            Stage::Active | Stage::Fencing => !self.desk.somebody_waits(),
            Stage::Stopping => false,
        };
        (may && wanted.mode == LeaseMode::Exclusive).then_some(own.id)
    }

    /// Whether what runs under a lease can be taken over: it cannot before the steward has said that it is that one's.
    fn heard_of(&self, lease: LeaseId) -> Result<(), Refusal> {
        let active = self.desk.find(lease).is_some_and(|found| found.stage == Stage::Active);
        if active && self.desk.unconfirmed { Err(Refusal::NotYet) } else { Ok(()) }
    }

    fn enter(&mut self, principal: PrincipalId, lease: LeaseId) -> Result<Answer, Refusal> {
        if self.desk.rules.open {
            return Ok(Answer::Pass { fence: self.desk.fence });
        }
        if let Some(holder) = self.desk.exclusive().filter(|holder| holder.is_of(principal)) {
            return match holder.stage {
                Stage::Active => Ok(Answer::Pass { fence: holder.fence }),
                Stage::Fencing => Ok(Answer::Fencing { lease: holder.id }),
                Stage::Stopping => Err(self.held()),
            };
        }
        if self.desk.somebody_waits() || !self.has_room(LeaseMode::Exclusive) {
            return Err(self.held());
        }
        self.make_room();
        let wanted = Wanted { principal, bind: LeaseBind::Principal, mode: LeaseMode::Exclusive, ttl: LINGER, max_lifetime: None };
        self.begin(lease, wanted, Came::Implicitly);
        Ok(Answer::Fencing { lease })
    }

    fn knock(&self, principal: PrincipalId) -> Result<Answer, Refusal> {
        let free = self.desk.rules.open || self.desk.leases.iter().all(|lease| lease.is_of(principal) || self.is_idle(lease));
        if free { Ok(Answer::Pass { fence: self.desk.fence }) } else { Err(self.held()) }
    }

    fn present(&self, lease: LeaseId) -> Result<Answer, Refusal> {
        let found = self.desk.find(lease).ok_or(Refusal::Stale)?;
        match found.stage {
            _ if found.mode == LeaseMode::Shared && !self.desk.rules.open => Err(Refusal::ReadOnly),
            Stage::Active => Ok(Answer::Pass { fence: found.fence }),
            Stage::Fencing => Ok(Answer::Fencing { lease }),
            Stage::Stopping => Err(Refusal::Stale),
        }
    }

    fn renew(&mut self, lease: LeaseId) -> Result<Answer, Refusal> {
        let (now, somebody_waits) = (self.seen.now, self.desk.somebody_waits());
        let found = self.desk.find_mut(lease).filter(|found| found.stage != Stage::Stopping).ok_or(Refusal::Stale)?;
        if found.stage == Stage::Fencing {
            // Its time has not begun.
            return Ok(Answer::Renewed { left: found.ttl, directive: Directive::Continue });
        }
        found.renew(now);
        let left = found.expires.and_then(|expires| expires.left(now)).unwrap_or(found.ttl);
        // Of its longest time; after that no renewal helps.
        let ttl = found.ttl;
        let directive = match found.ends.and_then(|ends| ends.left(now)) {
            Some(left) if left <= ttl / 5 => Directive::Stop,
            Some(left) if left <= ttl => Directive::FinishUp,
            _ if somebody_waits => Directive::FinishUp,
            _ => Directive::Continue,
        };
        Ok(Answer::Renewed { left, directive })
    }

    fn release(&mut self, lease: LeaseId, work: bool) -> Result<Answer, Refusal> {
        let running = self.seen.running;
        // Repeated, or too late: it has ended either way.
        let Some(found) = self.desk.find_mut(lease) else { return Ok(Answer::Done) };
        match found.stage {
            Stage::Stopping => {}
            Stage::Active if (running || work) && found.mode == LeaseMode::Exclusive => {
                // From here on only the steward ends it, or who breaks it.
                (found.stage, found.expires, found.ends) = (Stage::Stopping, None, None);
                self.desk.fence += 1;
            }
            _ => self.end(lease, LeaseEnd::Released),
        }
        Ok(Answer::Done)
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<Answer, Refusal> {
        self.desk.find(lease).ok_or(Refusal::Stale)?;
        self.end(lease, LeaseEnd::Revoked);
        Ok(Answer::Done)
    }

    fn transfer(&mut self, lease: LeaseId, to: PrincipalId, bind: LeaseBind, successor: LeaseId) -> Result<Answer, Refusal> {
        // Said once more, because a reply was lost.
        if self.desk.find(successor).is_some() {
            return Ok(Answer::Fencing { lease: successor });
        }
        let found = *self.desk.find(lease).filter(|found| found.stage != Stage::Stopping).ok_or(Refusal::Stale)?;
        if found.mode == LeaseMode::Shared {
            return Err(Refusal::ReadOnly);
        }
        self.heard_of(lease)?;
        self.succeed(lease);
        self.begin(successor, Wanted { principal: to, bind, ..found.wants() }, Came::After(found));
        Ok(Answer::Fencing { lease: successor })
    }

    fn barrier_done(&mut self, fence: u64) -> Result<Answer, Refusal> {
        // Of an earlier one, or told once more: what may run since then is not older than it.
        if fence != self.desk.fence {
            return Ok(Answer::Done);
        }
        let stopping = self.desk.leases.iter().find(|lease| lease.stage == Stage::Stopping && lease.fence < fence).map(|lease| lease.id);
        if let Some(stopping) = stopping {
            self.succeed(stopping);
        }
        if self.desk.dirty.is_some_and(|older| older < fence) {
            self.desk.dirty = None;
        }
        self.desk.unconfirmed = false;
        Ok(Answer::Done)
    }

    /// A backup was put back, and nobody noticed. Whatever was given out since then is behind what is given out now.
    fn barrier_stale(&mut self, sent: u64, highest: u64) -> Result<Answer, Refusal> {
        if highest >= LAST_FENCE {
            return Err(Refusal::NoFence);
        }
        // What was sent for an earlier holder and came late is refused because of the present one, who has done nothing wrong.
        if highest > self.desk.fence || (sent == self.desk.fence && highest == sent) {
            self.desk.fence = highest + 1;
            self.desk.dirty = Some(highest);
            let holder = self.desk.leases.iter_mut().find(|lease| lease.mode == LeaseMode::Exclusive && lease.stage != Stage::Stopping);
            if let Some(holder) = holder {
                // When it ends whatever happens stays.
                (holder.fence, holder.stage, holder.expires) = (self.desk.fence, Stage::Fencing, None);
            }
        }
        Ok(Answer::Done)
    }

    fn withdraw(&mut self, ticket: TicketId) -> Result<Answer, Refusal> {
        let at = self.desk.waiting.iter().position(|waiting| waiting.id == ticket).ok_or(Refusal::NoTicket)?;
        self.desk.waiting.remove(at);
        Ok(Answer::Done)
    }

    fn sweep(&mut self) -> Result<Answer, Refusal> {
        if let Some(older) = self.desk.dirty
            && self.desk.leases.is_empty()
        {
            // The same one again, until it is answered: another would make every answer that is on its way one of an earlier barrier.
            self.desk.fence = self.desk.fence.max(older + 1);
            self.effects.push(Effect::Barrier(self.desk.barrier_now()));
        }
        Ok(Answer::Done)
    }
}
