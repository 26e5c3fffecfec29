//! What is known of one sandbox: who holds it, who waits, and whether something of an earlier holder may still run.

use super::clock::{Deadline, Moment};
use super::{LeaseBind, LeaseMode, Wanted};
use crate::ids::{LeaseId, PrincipalId, TicketId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Desk {
    pub rules: Rules,
    /// The highest that was ever given out.
    pub fence: u64,
    /// Those that have not ended: one that is exclusive, or any number of shared ones.
    pub leases: Vec<Lease>,
    /// In the order in which they are served: all of them; or the first few, and with them every one that is overdue or whose deadline is of
    /// another era, wherever it stands.
    pub waiting: Vec<Ticket>,
    /// Others wait behind those.
    pub more_wait: bool,
    /// Something may still run that was started under this fence or an earlier one, and nothing was since: nobody is let in before a barrier
    /// above it.
    pub dirty: Option<u64>,
    /// No steward has confirmed the fence since this server began: the store may be an older one that came back, and somebody may run whom
    /// it does not know of.
    pub unconfirmed: bool,
    /// Before this nobody is let in: a holder whose lease expired may need as long to notice.
    pub not_before: Option<Deadline>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Many writers, and no promise.
    pub open: bool,
    /// Milliseconds between an unclean end and the next holder.
    pub lock_delay: u64,
    /// Whoever holds it and the sandbox are on the machine whose clock is read: another start of it has ended both.
    pub local: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The barrier is not through yet. Its time has not begun to run.
    Fencing,
    Active,
    /// Released with something running, which is being stopped.
    Stopping,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub id: LeaseId,
    pub principal: PrincipalId,
    pub bind: LeaseBind,
    pub mode: LeaseMode,
    /// Taken by a call that needed one. It lives as long as something runs, and a little longer.
    pub implicit: bool,
    pub stage: Stage,
    pub fence: u64,
    pub ttl: u64,
    pub max_lifetime: Option<u64>,
    /// When it ends if nothing happens; none while it waits for the barrier, and for an implicit one while something runs.
    pub expires: Option<Deadline>,
    /// When it ends whatever happens. Whoever takes over from another has no more than was left.
    pub ends: Option<Deadline>,
}

impl Lease {
    pub fn wants(&self) -> Wanted {
        Wanted { principal: self.principal, bind: self.bind, mode: self.mode, ttl: self.ttl, max_lifetime: self.max_lifetime }
    }

    /// Whether calls of this principal without a token are its own.
    pub fn is_of(&self, principal: PrincipalId) -> bool {
        self.bind == LeaseBind::Principal && self.principal == principal
    }

    /// Its time begins to run, unless it did before.
    pub fn activate(&mut self, now: Moment) {
        self.stage = Stage::Active;
        self.ends = self.ends.or_else(|| self.max_lifetime.map(|lifetime| now.after(lifetime)));
        self.renew(now);
    }

    pub fn renew(&mut self, now: Moment) {
        if !self.implicit && self.stage == Stage::Active {
            let expires = now.after(self.ttl);
            self.expires = Some(self.ends.map_or(expires, |ends| expires.earlier(ends)));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub id: TicketId,
    /// The lease that comes of it.
    pub lease: LeaseId,
    pub wanted: Wanted,
    pub priority: i8,
    /// When it began to wait, less what its priority is worth. This never changes, so whoever waits for long enough is next whatever comes.
    /// Only a clock that begins anew takes those along who wait, as far as it went back.
    pub rank: i64,
    pub wait: u64,
    pub deadline: Deadline,
}

impl Ticket {
    /// When it began to wait.
    pub(super) fn since(&self) -> i64 {
        self.rank.saturating_add(i64::from(self.priority) * PRIORITY)
    }
}

/// What a steward is told when somebody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Barrier {
    /// From now on the lowest that is let through.
    pub fence: u64,
    /// Whose it is, if it is anybody's.
    pub owner: Option<LeaseId>,
    /// Everything that was started under an earlier one is ended. Otherwise the steward only says whether somebody else has been there: what
    /// a holder took over goes on, whichever server is there.
    pub stop: bool,
}

/// Milliseconds of waiting that one step of priority is worth.
pub const PRIORITY: i64 = 30_000;

impl Desk {
    /// One that nobody ever held.
    pub fn new(rules: Rules, fence: u64) -> Self {
        Self { rules, fence, leases: Vec::new(), waiting: Vec::new(), more_wait: false, dirty: None, unconfirmed: false, not_before: None }
    }

    /// Whether somebody may still run who should not.
    pub(super) fn needs_barrier(&self) -> bool {
        self.dirty.is_some() || self.unconfirmed
    }

    /// What the steward has to be told, and told again until it answers.
    pub fn barrier(&self) -> Option<Barrier> {
        let stopping = self.leases.iter().any(|lease| lease.stage == Stage::Stopping);
        let waited_for = stopping || (self.needs_barrier() && !self.leases.is_empty() && !self.rules.open);
        waited_for.then(|| self.barrier_now())
    }

    /// The same, whether anybody waits for it or not.
    pub fn barrier_now(&self) -> Barrier {
        let stopping = self.leases.iter().any(|lease| lease.stage == Stage::Stopping);
        Barrier { fence: self.fence, owner: self.owner(), stop: stopping || self.dirty.is_some() }
    }

    pub fn somebody_waits(&self) -> bool {
        self.more_wait || !self.waiting.is_empty()
    }

    pub fn exclusive(&self) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.mode == LeaseMode::Exclusive)
    }

    /// Whose the highest fence is. It is said with the fence wherever that is said: a store that came back from a backup may give the same
    /// number to somebody else, and whoever keeps the sandbox tells them apart by this.
    pub fn owner(&self) -> Option<LeaseId> {
        self.exclusive().filter(|lease| lease.fence == self.fence).map(|lease| lease.id)
    }

    pub fn find(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.id == id)
    }

    pub(super) fn find_mut(&mut self, id: LeaseId) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.id == id)
    }

    /// When something changes by itself, at the latest. A desk of another era has to be looked at once, whatever this says.
    pub fn due(&self) -> Option<Deadline> {
        let leases = self.leases.iter().filter_map(|lease| lease.expires);
        let tickets = self.waiting.iter().map(|ticket| ticket.deadline);
        leases.chain(tickets).chain(self.not_before).min_by_key(|deadline| deadline.at)
    }
}
