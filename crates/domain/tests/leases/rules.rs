//! What must hold after every step.

use std::collections::{HashMap, HashSet};

use stead_domain::ids::{LeaseId, TicketId};
use stead_domain::lease::{Desk, Effect, Event, LeaseEnd, LeaseMode, Stage, Ticket};

use crate::steward::Running;

/// Whose place somebody took by this event, without a barrier between them.
pub fn taken_over(before: &Desk, event: Event, effects: &[Effect]) -> Option<(LeaseId, LeaseId)> {
    let (successor, previous) = match event {
        Event::Transfer { lease, successor, .. } => (successor, lease),
        Event::Acquire { wanted, lease, .. } => (lease, before.exclusive().filter(|own| own.implicit && own.is_of(wanted.principal))?.id),
        _ => return None,
    };
    let began = effects.contains(&Effect::Began { lease: successor, ticket: None });
    (began && effects.contains(&Effect::Ended { lease: previous, how: LeaseEnd::Released, clean: true })).then_some((successor, previous))
}

#[derive(Default)]
pub struct Rules {
    begun: HashSet<LeaseId>,
    ended: HashSet<LeaseId>,
    /// What each lease took over from, without a barrier between them.
    predecessors: HashMap<LeaseId, LeaseId>,
    highest: u64,
    pub hand_overs: u64,
}

impl Rules {
    /// An older state came back; what was since then never was. What was taken over before is still its holder's.
    pub fn begin_anew(&mut self, desk: &Desk) {
        let begun = desk.leases.iter().map(|lease| lease.id).collect();
        *self = Self { begun, predecessors: std::mem::take(&mut self.predecessors), hand_overs: self.hand_overs, ..Self::default() };
    }

    pub fn hold(&mut self, before: &Desk, event: Event, after: &Desk, effects: &[Effect], restored: bool) {
        let exclusive: Vec<_> = after.leases.iter().filter(|lease| lease.mode == LeaseMode::Exclusive).collect();
        assert!(exclusive.len() <= 1, "two hold it: {after:?}");
        assert!(exclusive.is_empty() || after.leases.len() == 1, "one writes while others read: {after:?}");
        assert!(after.fence >= before.fence, "the fence went back");
        if let Some((successor, previous)) = taken_over(before, event, effects) {
            self.predecessors.insert(successor, previous);
        }
        for effect in effects {
            match *effect {
                Effect::Began { lease, ticket } => {
                    assert!(self.begun.insert(lease), "it began twice");
                    self.began(before, after, lease, ticket, restored);
                }
                Effect::Ended { lease, .. } => {
                    assert!(self.begun.contains(&lease) && self.ended.insert(lease), "it ended twice, or never began");
                }
                _ => {}
            }
        }
        for lease in &after.leases {
            assert!(!self.ended.contains(&lease.id), "an ended lease came back");
            if lease.stage == Stage::Active && lease.mode == LeaseMode::Exclusive {
                assert!(after.dirty.is_none() && after.not_before.is_none(), "let in before the barrier: {after:?}");
            }
        }
    }

    fn began(&mut self, before: &Desk, after: &Desk, lease: LeaseId, ticket: Option<TicketId>, restored: bool) {
        if let Some(begun) = after.find(lease).filter(|begun| begun.mode == LeaseMode::Exclusive) {
            // A backup that nobody noticed gives numbers out again, until the steward says so.
            assert!(begun.fence > self.highest || restored, "a fence was given out again");
            self.highest = self.highest.max(begun.fence);
            self.hand_overs += 1;
        }
        if let Some(served) = ticket.and_then(|id| before.waiting.iter().find(|waiting| waiting.id == id)) {
            let passed_over =
                |earlier: &&Ticket| earlier.rank < served.rank && after.waiting.iter().any(|waiting| waiting.id == earlier.id);
            assert_eq!(before.waiting.iter().find(passed_over), None, "served past somebody who waited for longer");
        }
    }

    /// Something writes: it must be the present holder's, or of one that it took over from, or nobody may hold it yet.
    pub fn writes(&self, desk: &Desk, program: Running) {
        let Some(holder) = desk.exclusive().filter(|holder| holder.stage == Stage::Active) else { return };
        let mut known = Some(holder.id);
        while let Some(id) = known {
            if id == program.lease {
                return;
            }
            known = self.predecessors.get(&id).copied();
        }
        unreachable!("{program:?} writes while {holder:?} holds it");
    }

    /// When nobody asks for anything any more.
    pub fn is_over(&self, desk: &Desk) {
        assert!(desk.leases.is_empty() && desk.waiting.is_empty() && desk.dirty.is_none(), "something never ended: {desk:?}");
        assert_eq!(self.begun, self.ended, "a lease has no end");
    }
}
