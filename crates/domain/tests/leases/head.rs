//! A queue that is told of by its first few: whoever calls keeps the rest, and everything comes out as if all of it had been told.

use proptest::prelude::*;
use stead_domain::ids::{LeaseId, PrincipalId, TicketId};
use stead_domain::lease::{
    Answer, Decision, Desk, Effect, Event, LeaseBind, LeaseMode, Moment, OnBusy, Refusal, Rules, Seen, Ticket, Wanted, decide,
};

/// A store that loads only the first few.
#[derive(Clone)]
struct Store {
    desk: Desk,
    queue: Vec<Ticket>,
    first: usize,
}

impl Store {
    /// The first few, and everybody whose deadline is past or of another era: that they are overdue is not for the head of the queue to find,
    /// and all of another era are ranked anew together.
    fn load(&self, now: Moment, first: usize) -> Desk {
        let told = |(place, ticket): &(usize, &Ticket)| *place < first || ticket.deadline.is_past(now) || ticket.deadline.era != now.era;
        let waiting: Vec<Ticket> = self.queue.iter().enumerate().filter(told).map(|(_, ticket)| *ticket).collect();
        Desk { more_wait: waiting.len() < self.queue.len(), waiting, ..self.desk.clone() }
    }

    /// A ticket behind those that are told of is withdrawn where it stands, before anything is decided.
    fn withdraw(&mut self, event: Event, now: Moment) -> bool {
        let Event::Withdraw { ticket } = event else { return false };
        let told = self.load(now, self.first).waiting;
        let behind = self.queue.iter().any(|waiting| waiting.id == ticket) && !told.iter().any(|waiting| waiting.id == ticket);
        if behind {
            self.queue.retain(|waiting| waiting.id != ticket);
        }
        behind
    }

    fn save(&mut self, event: Event, Decision { desk, effects, .. }: &Decision) {
        // Those that it was told of may have another rank and deadline now.
        for changed in &desk.waiting {
            self.queue.iter_mut().filter(|ticket| ticket.id == changed.id).for_each(|ticket| *ticket = *changed);
        }
        for effect in effects {
            match *effect {
                Effect::Waits(ticket) => {
                    let place = self.queue.partition_point(|earlier| earlier.rank <= ticket.rank);
                    self.queue.insert(place, ticket);
                }
                Effect::Began { ticket: Some(gone), .. } | Effect::TimedOut { ticket: gone } => {
                    self.queue.retain(|ticket| ticket.id != gone);
                }
                _ => {}
            }
        }
        if let Event::Withdraw { ticket: gone } = event {
            self.queue.retain(|ticket| ticket.id != gone);
        }
        self.desk = Desk { waiting: Vec::new(), more_wait: false, ..desk.clone() };
    }

    /// Decides anew with more of them, as long as it runs out. To look again afterwards would not do: whoever asks meanwhile is told that others
    /// wait, and ends them if it may.
    fn decide(&mut self, event: Event, seen: Seen) -> (Vec<Effect>, Result<Answer, Refusal>) {
        let mut first = self.first;
        let decision = loop {
            let decision = decide(self.load(seen.now, first), event, seen);
            if !decision.ran_out() {
                break decision;
            }
            first *= 2;
        };
        self.save(event, &decision);
        (decision.effects, decision.answer)
    }

    fn everything(&self) -> Desk {
        Desk { waiting: self.queue.clone(), ..self.desk.clone() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    what: u8,
    who: u8,
    priority: i8,
    later: u64,
    another_era: bool,
    running: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..16_u8, 0..30_u8, -2..3_i8, 0..20_000_u64, prop::bool::weighted(0.02), prop::bool::weighted(0.2))
        .prop_map(|(what, who, priority, later, another_era, running)| Step { what, who, priority, later, another_era, running });
    prop::collection::vec(step, 1..120)
}

/// What a step is, seen from whoever is told everything.
fn event(step: Step, number: u8, desk: &Desk) -> Event {
    let (lease, ticket) = (LeaseId::from_bytes([number; 16]), TicketId::from_bytes([number; 16]));
    let held = desk.leases.get(usize::from(step.who) % desk.leases.len().max(1)).map_or(lease, |held| held.id);
    let mode = if step.who.is_multiple_of(3) { LeaseMode::Exclusive } else { LeaseMode::Shared };
    let principal = PrincipalId::from_bytes([step.who % 4; 16]);
    let wanted = Wanted { principal, bind: LeaseBind::Token, mode, ttl: 30_000, max_lifetime: Some(70_000) };
    let acquire = |on_busy| Event::Acquire { wanted, on_busy, priority: step.priority, wait: 60_000, lease, ticket };
    match step.what {
        0..6 => acquire(OnBusy::Wait),
        6 => acquire(OnBusy::Fail),
        7 => acquire(OnBusy::Preempt),
        8 => Event::Enter { principal, lease },
        9 | 10 => Event::Release { lease: held, work: false },
        11 => Event::BarrierDone { fence: desk.fence },
        12 => Event::Withdraw { ticket: TicketId::from_bytes([step.who; 16]) },
        13 => Event::Renew { lease: held },
        14 => Event::Sweep,
        _ => Event::Look,
    }
}

fn config() -> ProptestConfig {
    let cases = if std::env::var_os("STEAD_PROVE").is_some() { 100_000 } else { 1_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_head_of_the_queue_is_enough(steps in steps(), first in 1..5_usize) {
        let rules = Rules { open: false, lock_delay: 5_000, local: false };
        let mut whole = Desk::new(rules, 0);
        let mut store = Store { desk: whole.clone(), queue: Vec::new(), first };
        let mut now = Moment { era: 1, at: 1_000_000 };
        for (number, step) in steps.into_iter().enumerate() {
            now = if step.another_era { Moment { era: now.era + 1, at: step.later } } else { Moment { at: now.at + step.later, ..now } };
            let seen = Seen { now, running: step.running };
            let mut event = event(step, number as u8 + 1, &whole);
            if store.withdraw(event, now) {
                whole.waiting = store.queue.clone();
                event = Event::Look;
            }
            let decision = decide(whole, event, seen);
            whole = decision.desk;
            let (effects, answer) = store.decide(event, seen);
            prop_assert_eq!((&effects, &answer), (&decision.effects, &decision.answer), "{:?}", event);
            prop_assert_eq!(store.everything(), whole.clone(), "{:?}", event);
        }
    }
}
