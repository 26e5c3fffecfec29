//! Everybody and everything, one step after the other.

use std::collections::BTreeMap;

use stead_domain::ids::{LeaseId, PrincipalId, TicketId};
use stead_domain::lease::{
    Answer, Barrier, Desk, Effect, Event, LeaseBind, LeaseMode, Moment, OnBusy, Refusal, Rules as Policy, Seen, Wanted, decide,
};
use stead_domain::sandbox::FENCE_JUMP;

use crate::random::Random;
use crate::rules::Rules;
use crate::steward::{Running, Steward};

const HOLDERS: usize = 5;
const STEPS: u64 = 4000;
const TTL: u64 = 10_000;

enum Message {
    Start(Running),
    Barrier(Barrier),
    /// With what runs.
    Done(u64, Vec<Running>),
    /// What was sent, and the highest that was seen.
    Stale(u64, u64),
}

/// Somebody who works, and remembers what it was last told.
struct Holder {
    principal: PrincipalId,
    bind: LeaseBind,
    lease: Option<LeaseId>,
    ticket: Option<TicketId>,
    /// It stands still, and does not know.
    paused_until: u64,
}

pub struct World {
    random: Random,
    now: u64,
    /// What the store's clock is ahead by, and how often it began anew.
    skew: u64,
    era: u64,
    desk: Desk,
    backup: Desk,
    /// A backup came back without anybody saying so.
    restored: bool,
    steward: Steward,
    /// When each arrives, and which server it is from or for: one that was killed is told nothing, though what it sent still arrives.
    messages: Vec<(u64, u64, Message)>,
    server: u64,
    /// Programs whose end is not written down.
    rows: BTreeMap<u64, Running>,
    next_program: u64,
    holders: Vec<Holder>,
    rules: Rules,
    quiet: bool,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let policy = Policy { open: false, lock_delay: if random.once_in(3) { 0 } else { 5_000 }, local: random.once_in(2) };
        let holders = (0..HOLDERS).map(|number| Holder {
            // Two with one name, as agents that share a key.
            principal: PrincipalId::from_bytes([number.max(1) as u8; 16]),
            bind: if number < 3 { LeaseBind::Token } else { LeaseBind::Principal },
            lease: None,
            ticket: None,
            paused_until: 0,
        });
        let desk = Desk::new(policy, 0);
        Self {
            holders: holders.collect(),
            random,
            now: 1,
            skew: 0,
            era: 1,
            backup: desk.clone(),
            desk,
            restored: false,
            steward: Steward::default(),
            messages: Vec::new(),
            server: 1,
            rows: BTreeMap::new(),
            next_program: 1,
            rules: Rules::default(),
            quiet: false,
        }
    }

    /// How many times the sandbox changed hands.
    pub fn run(mut self) -> u64 {
        for _ in 0..STEPS {
            self.step();
        }
        // Nobody asks for anything any more, and nothing goes wrong: everything comes to its end.
        self.quiet = true;
        for _ in 0..200 {
            self.now += TTL / 4;
            self.deliver();
            (0..self.steward.running().len()).rev().for_each(|at| self.steward.end(at));
            self.compare_rows();
            let _ = self.decide(Event::Sweep);
            self.send_again();
        }
        self.rules.is_over(&self.desk);
        self.rules.hand_overs
    }

    fn step(&mut self) {
        self.now += self.random.below(400);
        self.deliver();
        match self.random.below(40) {
            0..20 => {
                let holder = self.random.below(HOLDERS as u64) as usize;
                self.work(holder);
            }
            20..24 => drop(self.decide(Event::Look)),
            24..26 => self.send_again(),
            26..29 => self.compare_rows(),
            29..34 => self.write_something(),
            34 => {
                let running = self.steward.running().len() as u64;
                if running > 0 {
                    let at = self.random.below(running) as usize;
                    self.steward.end(at);
                }
            }
            35 => drop(self.decide(Event::Sweep)),
            36 => self.wreck(),
            _ => self.now += self.random.below(3_000),
        }
    }

    fn wreck(&mut self) {
        match self.random.below(12) {
            0 => self.steward.crash(),
            // The server dies: what it was about to send is not sent.
            1 | 2 => {
                self.messages.retain(|(_, _, message)| !matches!(message, Message::Start(_) | Message::Barrier(_)));
                self.begin_server();
            }
            // The clock jumps, forwards or back.
            3 => self.skew = self.random.below(60_000),
            // The machine, or the database, starts anew.
            4 => {
                self.era += 1;
                if self.desk.rules.local {
                    self.steward.crash();
                }
            }
            5 => self.backup = self.desk.clone(),
            6 => self.restore(),
            7 => {
                if let Some(lease) = self.desk.leases.first().map(|lease| lease.id) {
                    let _ = self.decide(Event::Break { lease });
                }
            }
            _ => {
                let holder = self.random.below(HOLDERS as u64) as usize;
                self.holders[holder].paused_until = self.now + self.random.below(TTL * 4);
            }
        }
    }

    /// Another server takes over, and knows what is in the store.
    fn begin_server(&mut self) {
        self.server += 1;
        self.desk.unconfirmed = true;
    }

    /// An older state comes back. Usually the one who does it throws every fence ahead; sometimes a disk was copied, and nobody says so.
    fn restore(&mut self) {
        let said_so = self.random.once_in(2);
        self.desk = self.backup.clone();
        if said_so {
            // What was held then ended long ago, as far as anybody can tell.
            let fence = self.backup.fence + FENCE_JUMP;
            self.desk = Desk { dirty: Some(fence), ..Desk::new(self.backup.rules, fence) };
        }
        self.begin_server();
        // That takes longer than anything is on its way.
        for (_, _, message) in std::mem::take(&mut self.messages) {
            let _ = match message {
                Message::Start(program) => self.steward.start(program),
                Message::Barrier(barrier) => self.steward.barrier(barrier),
                Message::Done(..) | Message::Stale(..) => Ok(()),
            };
        }
        self.restored = !said_so;
        self.rules.begin_anew(&self.desk);
        self.rows.clear();
    }

    fn seen(&self) -> Seen {
        Seen { now: Moment { era: self.era, at: self.now + self.skew }, running: !self.rows.is_empty() }
    }

    /// One unit of work: lock, read the clock, decide, save. What is to be sent goes out when it is durable.
    fn decide(&mut self, event: Event) -> Result<Answer, Refusal> {
        let before = self.desk.clone();
        let decision = decide(self.desk.clone(), event, self.seen());
        self.rules.hold(&before, event, &decision.desk, &decision.effects, self.restored);
        self.desk = decision.desk;
        for effect in decision.effects {
            if let Effect::Barrier(barrier) = effect {
                self.send(Message::Barrier(barrier));
            }
        }
        decision.answer
    }

    /// The same; sometimes it is asked for twice, and the second answer is the first one again, or what has become of it: whoever waits may
    /// be let in by the next decision.
    fn decide_twice(&mut self, event: Event) -> Result<Answer, Refusal> {
        let first = self.decide(event);
        if self.random.once_in(6) {
            let again = self.decide(event);
            let is_further = matches!((first, again), (Ok(Answer::Queued { .. }), Ok(Answer::Fencing { .. } | Answer::Pass { .. })));
            assert!(again == first || is_further, "a repetition of {event:?} was answered {again:?} after {first:?}");
        }
        first
    }

    fn send(&mut self, message: Message) {
        self.send_for(self.server, message);
    }

    /// Late, lost, or twice.
    fn send_for(&mut self, server: u64, message: Message) {
        let delay = if self.random.once_in(4) { self.random.below(TTL * 2) } else { self.random.below(50) };
        if !self.quiet && self.random.once_in(8) {
            return;
        }
        if let (true, Message::Barrier(barrier)) = (self.random.once_in(6), &message) {
            self.messages.push((self.now + delay + self.random.below(TTL), server, Message::Barrier(*barrier)));
        }
        self.messages.push((self.now + delay, server, message));
    }

    /// Everything that has arrived, in any order.
    fn deliver(&mut self) {
        while let Some(at) = self.messages.iter().position(|(due, ..)| *due <= self.now) {
            let (_, server, message) = self.messages.swap_remove(at);
            match message {
                Message::Start(program) => {
                    if let Err(highest) = self.steward.start(program) {
                        self.send_for(server, Message::Stale(program.fence, highest));
                    }
                }
                Message::Barrier(barrier) => match self.steward.barrier(barrier) {
                    Ok(()) => self.send_for(server, Message::Done(barrier.fence, self.steward.running().to_vec())),
                    Err(highest) => self.send_for(server, Message::Stale(barrier.fence, highest)),
                },
                Message::Done(..) | Message::Stale(..) if server != self.server => {}
                Message::Done(fence, running) => {
                    // The records follow before the next holder is let in. What a store from a backup does not know of runs all the same.
                    if fence == self.desk.fence {
                        self.rows.retain(|number, program| program.fence >= fence || running.iter().any(|runs| runs.number == *number));
                        if self.desk.unconfirmed {
                            self.rows.extend(running.into_iter().map(|program| (program.number, program)));
                        }
                    }
                    let _ = self.decide(Event::BarrierDone { fence });
                }
                Message::Stale(sent, highest) => drop(self.decide(Event::BarrierStale { sent, highest })),
            }
        }
    }

    /// What waits for a barrier is sent again until it is answered.
    fn send_again(&mut self) {
        if let Some(barrier) = self.desk.barrier() {
            self.send(Message::Barrier(barrier));
        }
    }

    /// The records are compared with what runs. What is on its way is waited for.
    fn compare_rows(&mut self) {
        let on_the_way: Vec<u64> = self
            .messages
            .iter()
            .filter_map(|(_, _, message)| match message {
                Message::Start(program) => Some(program.number),
                _ => None,
            })
            .collect();
        let running: Vec<u64> = self.steward.running().iter().map(|program| program.number).collect();
        self.rows.retain(|number, _| running.contains(number) || on_the_way.contains(number));
        let _ = self.decide(Event::Look);
    }

    fn write_something(&mut self) {
        let running = self.steward.running();
        // Until the steward was spoken to, nobody knows that there ever was somebody else.
        let unaware = self.desk.unconfirmed;
        if !running.is_empty() && !unaware {
            let at = self.random.below(running.len() as u64) as usize;
            self.rules.writes(&self.desk, running[at]);
        }
    }

    fn work(&mut self, number: usize) {
        if self.holders[number].paused_until > self.now {
            return;
        }
        let Holder { principal, bind, lease, ticket, .. } = self.holders[number];
        if let Some(served) = ticket {
            // It asks how it stands: its lease began, it still waits, or neither.
            if self.desk.waiting.iter().any(|waiting| waiting.id == served) {
                if self.random.once_in(10) && self.decide(Event::Withdraw { ticket: served }).is_ok() {
                    (self.holders[number].ticket, self.holders[number].lease) = (None, None);
                }
                return;
            }
            self.holders[number].ticket = None;
        }
        match (lease, self.random.below(10)) {
            (None, 0..2) => self.enter(principal),
            (None, choice) => {
                let (lease, ticket) = (LeaseId::from_bytes(self.random.bytes()), TicketId::from_bytes(self.random.bytes()));
                let on_busy = match choice {
                    2 => OnBusy::Preempt,
                    3 | 4 => OnBusy::Fail,
                    _ => OnBusy::Wait,
                };
                let mode = if self.random.once_in(6) { LeaseMode::Shared } else { LeaseMode::Exclusive };
                let max_lifetime = self.random.once_in(3).then_some(TTL * 3);
                let wanted = Wanted { principal, bind, mode, ttl: TTL, max_lifetime };
                let priority = self.random.below(5) as i8 - 2;
                let wait = 1_000 + self.random.below(60_000);
                let answer = self.decide_twice(Event::Acquire { wanted, on_busy, priority, wait, lease, ticket });
                // Sometimes the reply is lost: then it holds something that it does not know of.
                if !self.random.once_in(12) {
                    self.holders[number].lease = answer.is_ok().then_some(lease);
                    self.holders[number].ticket = matches!(answer, Ok(Answer::Queued { .. })).then_some(ticket);
                }
            }
            (Some(lease), 0..5) => self.start(Event::Present { lease }, number),
            (Some(lease), 5..8) => {
                if self.decide(Event::Renew { lease }).is_err() {
                    self.holders[number].lease = None;
                }
            }
            (Some(lease), 8) => {
                let _ = self.decide(Event::Release { lease, work: self.now.is_multiple_of(5) });
                // A lost reply: it is said again.
                if !self.random.once_in(4) {
                    self.holders[number].lease = None;
                }
            }
            (Some(lease), _) => {
                let (other, successor) = (self.random.below(HOLDERS as u64) as usize, LeaseId::from_bytes(self.random.bytes()));
                let Holder { principal: to, bind, .. } = self.holders[other];
                if self.decide_twice(Event::Transfer { lease, to, bind, successor }).is_ok() {
                    self.holders[number].lease = None;
                    self.holders[other].lease = Some(successor);
                }
            }
        }
    }

    fn enter(&mut self, principal: PrincipalId) {
        let lease = LeaseId::from_bytes(self.random.bytes());
        if let Ok(Answer::Pass { fence }) = self.decide(Event::Enter { principal, lease }) {
            let holder = self.desk.exclusive().map(|holder| holder.id).unwrap_or(lease);
            self.launch(Running { number: 0, lease: holder, fence });
        }
    }

    fn start(&mut self, event: Event, number: usize) {
        let Event::Present { lease } = event else { return };
        match self.decide(event) {
            Ok(Answer::Pass { fence }) => self.launch(Running { number: 0, lease, fence }),
            Err(Refusal::Stale) => self.holders[number].lease = None,
            _ => {}
        }
    }

    /// The record is written with the decision; the order to start follows.
    fn launch(&mut self, program: Running) {
        let program = Running { number: self.next_program, ..program };
        self.next_program += 1;
        self.rows.insert(program.number, program);
        self.send(Message::Start(program));
    }
}
