//! Case by case.

mod endings;
mod eras;
mod extremes;
mod readers;
mod stewards;
mod succession;
mod told;

use stead_domain::ids::{LeaseId, PrincipalId, TicketId};
use stead_domain::lease::{
    Answer, Barrier, Desk, Effect, Event, LeaseBind, LeaseMode, Moment, OnBusy, Refusal, Rules, Seen, Wanted, decide,
};

use LeaseBind::{Principal, Token};
use LeaseMode::{Exclusive, Shared};

const ANN: PrincipalId = principal(1);
const BEN: PrincipalId = principal(2);

const fn principal(number: u8) -> PrincipalId {
    PrincipalId::from_bytes([number; 16])
}

fn lease(number: u8) -> LeaseId {
    LeaseId::from_bytes([number; 16])
}

fn ticket(number: u8) -> TicketId {
    TicketId::from_bytes([number; 16])
}

struct Case {
    desk: Desk,
    now: u64,
    era: u64,
    running: bool,
    effects: Vec<Effect>,
}

impl Case {
    fn new(local: bool) -> Self {
        let rules = Rules { open: false, lock_delay: 5_000, local };
        Self { desk: Desk::new(rules, 0), now: 1_000, era: 1, running: false, effects: Vec::new() }
    }

    fn decide(&mut self, event: Event) -> Result<Answer, Refusal> {
        let seen = Seen { now: Moment { era: self.era, at: self.now }, running: self.running };
        let decision = decide(self.desk.clone(), event, seen);
        (self.desk, self.effects) = (decision.desk, decision.effects);
        decision.answer
    }

    fn acquire(&mut self, who: PrincipalId, number: u8, bind: LeaseBind, mode: LeaseMode, on_busy: OnBusy) -> Result<Answer, Refusal> {
        let wanted = Wanted { principal: who, bind, mode, ttl: 60_000, max_lifetime: Some(200_000) };
        self.decide(Event::Acquire { wanted, on_busy, priority: 0, wait: 90_000, lease: lease(number), ticket: ticket(number) })
    }

    fn wait(&mut self, who: PrincipalId, number: u8, priority: i8) -> Result<Answer, Refusal> {
        let wanted = Wanted { principal: who, bind: LeaseBind::Token, mode: LeaseMode::Exclusive, ttl: 60_000, max_lifetime: None };
        let (lease, ticket) = (lease(number), ticket(number));
        self.decide(Event::Acquire { wanted, on_busy: OnBusy::Wait, priority, wait: 600_000, lease, ticket })
    }

    fn enter(&mut self, who: PrincipalId, number: u8) -> Result<Answer, Refusal> {
        self.decide(Event::Enter { principal: who, lease: lease(number) })
    }

    fn renew(&mut self, number: u8) -> Result<Answer, Refusal> {
        self.decide(Event::Renew { lease: lease(number) })
    }

    fn present(&mut self, number: u8) -> Result<Answer, Refusal> {
        self.decide(Event::Present { lease: lease(number) })
    }

    fn release(&mut self, number: u8) -> Result<Answer, Refusal> {
        self.decide(Event::Release { lease: lease(number), work: false })
    }

    fn transfer(&mut self, number: u8, to: PrincipalId, bind: LeaseBind, successor: u8) -> Result<Answer, Refusal> {
        self.decide(Event::Transfer { lease: lease(number), to, bind, successor: lease(successor) })
    }

    /// What is to be stopped, by the barrier that the last decision sends.
    fn barrier(&self) -> Option<Barrier> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Barrier(barrier) => Some(*barrier),
            _ => None,
        })
    }
}
