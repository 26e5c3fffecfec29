//! What follows from time alone, and from who is gone: leases expire, tickets run out, whoever is next is let in.

use super::clock::Moment;
use super::desk::{Desk, Lease, Stage, Ticket};
use super::{Effect, LeaseEnd, LeaseMode, Seen, Wanted};
use crate::ids::{LeaseId, TicketId};

/// How long an implicit lease outlasts what ran under it, so that the next command finds it.
pub const LINGER: u64 = 30_000;

/// How somebody comes to hold it.
#[derive(Clone, Copy)]
pub(super) enum Came {
    ByItself,
    /// By a call that needed it.
    Implicitly,
    /// After waiting with this ticket.
    Served(TicketId),
    /// In the place of this one, whose time it shares: who hands on has no more to give than it had.
    After(Lease),
}

/// A desk that is being changed.
pub(super) struct Hand {
    pub desk: Desk,
    pub effects: Vec<Effect>,
    pub seen: Seen,
}

impl Hand {
    fn now(&self) -> Moment {
        self.seen.now
    }

    /// Brings everything up to the moment.
    pub fn settle(&mut self) {
        self.enter_another_era();
        self.heed_openness();
        self.heed_what_runs();
        let now = self.now();
        let over: Vec<LeaseId> = self
            .desk
            .leases
            .iter()
            .filter(|lease| lease.stage == Stage::Active && lease.expires.is_some_and(|expires| expires.is_past(now)))
            .map(|lease| lease.id)
            .collect();
        for id in over {
            let idle = self.desk.find(id).is_some_and(|lease| lease.implicit);
            self.end(id, if idle { LeaseEnd::Released } else { LeaseEnd::Expired });
        }
        if self.desk.exclusive().is_none() && self.seen.running && !self.desk.rules.open {
            // What runs while nobody holds it is nobody's. What was known to be left stays what it is: the barrier that was sent for it
            // must not become one of too low a fence because the records say so once more.
            self.desk.dirty.get_or_insert(self.desk.fence);
        }
        if self.desk.not_before.is_some_and(|moment| moment.is_past(now)) {
            self.desk.not_before = None;
        }
        let effects = &mut self.effects;
        self.desk.waiting.retain(|ticket| {
            let over = ticket.deadline.is_past(now);
            if over {
                effects.push(Effect::TimedOut { ticket: ticket.id });
            }
            !over
        });
    }

    /// The clock began anew, or went back. What was held on this machine ended with it; everybody else gets their whole time again, because nobody can tell
    /// how much of it is left.
    fn enter_another_era(&mut self) {
        let now = self.now();
        let foreign = |lease: &&Lease| {
            let expires = lease.expires.is_some_and(|deadline| deadline.is_foreign(now, lease.ttl.max(LINGER)));
            expires || lease.ends.is_some_and(|deadline| deadline.is_foreign(now, lease.max_lifetime.unwrap_or(u64::MAX)))
        };
        for id in self.desk.leases.iter().filter(foreign).map(|lease| lease.id).collect::<Vec<_>>() {
            if self.desk.rules.local {
                self.end(id, LeaseEnd::Expired);
            } else if let Some(lease) = self.desk.find_mut(id) {
                lease.ends = lease.ends.and(lease.max_lifetime).map(|lifetime| now.after(lifetime));
                lease.expires = lease.expires.map(|_| now.after(LINGER));
                lease.renew(now);
            }
        }
        if let Some(moment) = &mut self.desk.not_before
            && moment.is_foreign(now, self.desk.rules.lock_delay)
        {
            *moment = now.after(self.desk.rules.lock_delay);
        }
        let foreign = |ticket: &Ticket| ticket.deadline.is_foreign(now, ticket.wait);
        let latest = self.desk.waiting.iter().filter(|ticket| foreign(ticket)).map(Ticket::since).max();
        // As if the last of them had come just now: whoever comes after them goes behind them, and what they waited counts.
        let back = latest.map_or(0, |latest| latest.saturating_sub(now.reading()).max(0));
        for ticket in &mut self.desk.waiting {
            if foreign(ticket) {
                ticket.deadline = now.after(ticket.wait);
            }
            // All of them, also those who came before the clock went back: they stay in their order.
            ticket.rank = ticket.rank.saturating_sub(back);
        }
    }

    /// Where nobody is kept out nobody holds it alone, nor afterwards: what others start meanwhile may still run then.
    fn heed_openness(&mut self) {
        if !self.desk.rules.open {
            return;
        }
        let implicit = |lease: &&Lease| lease.implicit && lease.stage != Stage::Stopping;
        for id in self.desk.leases.iter().filter(implicit).map(|lease| lease.id).collect::<Vec<_>>() {
            self.succeed(id);
        }
        for lease in self.desk.leases.iter_mut().filter(|lease| lease.stage != Stage::Stopping) {
            lease.mode = LeaseMode::Shared;
        }
        self.desk.dirty = self.desk.dirty.map(|_| self.desk.fence);
    }

    /// An implicit lease lives as long as something runs, and a little longer.
    fn heed_what_runs(&mut self) {
        let Seen { now, running } = self.seen;
        for lease in self.desk.leases.iter_mut().filter(|lease| lease.implicit && lease.stage == Stage::Active) {
            if running {
                lease.expires = None;
            } else {
                lease.expires.get_or_insert(now.after(LINGER));
            }
        }
    }

    /// Ends one. It is clean when its holder said so, or changed nothing, and nothing runs.
    pub fn end(&mut self, id: LeaseId, how: LeaseEnd) {
        let Some(lease) = self.take(id) else { return };
        let harmless = lease.mode == LeaseMode::Shared || lease.stage == Stage::Fencing;
        let clean = harmless || (how == LeaseEnd::Released && !self.seen.running);
        if !clean {
            self.desk.dirty = self.desk.dirty.max(Some(lease.fence));
            let delay = self.desk.rules.lock_delay;
            self.desk.not_before = (how != LeaseEnd::Released && delay > 0).then(|| self.now().after(delay));
        }
        if lease.mode == LeaseMode::Exclusive && (self.seen.running || self.desk.unconfirmed) {
            // Also one that was not let in yet may have something running: it took over from somebody, or had been let in before an older
            // state of the store came back. Until the steward has spoken the records may be older ones as well.
            self.desk.dirty.get_or_insert(lease.fence);
        }
        self.effects.push(Effect::Ended { lease: id, how, clean });
    }

    /// Ends one whose successor takes over what runs.
    pub fn succeed(&mut self, id: LeaseId) {
        if self.take(id).is_some() {
            self.effects.push(Effect::Ended { lease: id, how: LeaseEnd::Released, clean: true });
        }
    }

    fn take(&mut self, id: LeaseId) -> Option<Lease> {
        let at = self.desk.leases.iter().position(|lease| lease.id == id)?;
        Some(self.desk.leases.remove(at))
    }

    /// Lets somebody in. Every exclusive lease has a fence of its own, which no other ever had.
    pub fn begin(&mut self, id: LeaseId, wanted: Wanted, came: Came) {
        if self.desk.unconfirmed && !self.desk.rules.open {
            // Numbers that are given out now may hide others that were given out before an older state of the store came back.
            self.desk.dirty.get_or_insert(self.desk.fence);
        }
        if wanted.mode == LeaseMode::Exclusive {
            self.desk.fence += 1;
        }
        let (implicit, ends) = match came {
            Came::ByItself | Came::Served(_) => (false, None),
            Came::Implicitly => (true, None),
            Came::After(previous) => (previous.implicit, previous.ends),
        };
        let mut lease = Lease {
            id,
            principal: wanted.principal,
            bind: wanted.bind,
            mode: wanted.mode,
            implicit,
            stage: Stage::Fencing,
            fence: self.desk.fence,
            ttl: wanted.ttl,
            max_lifetime: wanted.max_lifetime,
            expires: None,
            ends,
        };
        if self.lets_in() {
            lease.activate(self.now());
        }
        self.desk.leases.push(lease);
        let ticket = if let Came::Served(ticket) = came { Some(ticket) } else { None };
        self.effects.push(Effect::Began { lease: id, ticket });
    }

    /// Readers have no fence of their own, but are promised that nobody writes: there is one barrier for all of them.
    pub fn fence_readers_in(&mut self) {
        let read = self.desk.exclusive().is_none() && !self.desk.leases.is_empty() && !self.desk.rules.open;
        if let (true, Some(older)) = (read, self.desk.dirty) {
            self.desk.fence = self.desk.fence.max(older + 1);
            for reader in self.desk.leases.iter_mut().filter(|reader| reader.stage == Stage::Fencing) {
                reader.fence = self.desk.fence;
            }
        }
    }

    /// Whether nothing older can change anything any more, and the holder before has had its time.
    fn lets_in(&self) -> bool {
        self.desk.rules.open || (!self.desk.needs_barrier() && self.desk.not_before.is_none())
    }

    /// Lets in whoever waits for that.
    pub fn advance(&mut self) {
        if !self.lets_in() {
            return;
        }
        let now = self.now();
        for lease in self.desk.leases.iter_mut().filter(|lease| lease.stage == Stage::Fencing) {
            lease.activate(now);
            self.effects.push(Effect::Activated { lease: lease.id });
        }
    }

    /// Whether there is room for another one of this kind, whoever waits. An implicit lease under which nothing runs makes room.
    pub fn has_room(&self, mode: LeaseMode) -> bool {
        self.desk.leases.iter().all(|lease| match (lease.mode, mode) {
            (LeaseMode::Shared, LeaseMode::Shared) => true,
            _ => self.is_idle(lease),
        })
    }

    pub fn is_idle(&self, lease: &Lease) -> bool {
        lease.implicit && lease.stage == Stage::Active && !self.seen.running
    }

    pub fn make_room(&mut self) {
        for id in self.desk.leases.iter().filter(|lease| self.is_idle(lease)).map(|lease| lease.id).collect::<Vec<_>>() {
            self.end(id, LeaseEnd::Released);
        }
    }

    /// Lets in those who are next, for as long as there is room.
    pub fn hand_over(&mut self) {
        while let Some(Ticket { id, lease, wanted, .. }) = self.desk.waiting.first().copied()
            && self.has_room(wanted.mode)
        {
            self.make_room();
            self.desk.waiting.remove(0);
            self.begin(lease, wanted, Came::Served(id));
        }
    }
}
