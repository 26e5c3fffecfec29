//! Everything that can happen next.

use stead_domain::lease::{Effect, Event, LeaseBind, Moment, Stage, Wanted, decide};

use super::cast::{Client, LONGEST, Model, STEP, TTL, WAIT, lease, principal, ticket};
use super::rules::{self, Broken};
use super::state::{Message, Program, State};

#[derive(Clone, Debug)]
pub enum Step {
    Ask(usize),
    /// A call without a token, by a client that made one before.
    EnterAgain(usize),
    Present(usize),
    Renew(usize),
    Release(usize, bool),
    Withdraw(usize),
    Break(usize),
    Tick,
    Look,
    Sweep,
    SendAgain,
    CloseRecords,
    StartArrives(Program, u8),
    StartLost(Program, u8),
    Arrives(Message, u8),
    ProgramEnds(Program),
    ServerDies,
    StewardDies,
    BackUp,
    Restore {
        said_so: bool,
    },
    AnotherEra,
}

impl State {
    pub fn steps(&self, model: &Model) -> Vec<Step> {
        let mut steps = vec![Step::Tick, Step::Look, Step::Sweep];
        for client in 0..model.clients.len() {
            self.steps_of(model, client, &mut steps);
        }
        if self.store.desk.barrier().is_some_and(|barrier| !self.sent.contains(&(barrier.into(), self.server))) {
            steps.push(Step::SendAgain);
        }
        if !self.store.records.is_empty() {
            steps.push(Step::CloseRecords);
        }
        for (program, server) in &self.starts {
            steps.extend([Step::StartArrives(*program, *server), Step::StartLost(*program, *server)]);
        }
        steps.extend(self.sent.iter().map(|(message, server)| Step::Arrives(message.clone(), *server)));
        steps.extend(self.steward.running.iter().map(|program| Step::ProgramEnds(*program)));
        let left = self.left;
        let mut mishaps =
            vec![(left.server_crashes, Step::ServerDies), (left.steward_crashes, Step::StewardDies), (left.eras, Step::AnotherEra)];
        match &self.backup {
            None => mishaps.push((left.restores, Step::BackUp)),
            Some(_) => mishaps.extend([true, false].map(|said_so| (left.restores, Step::Restore { said_so }))),
        }
        steps.extend(mishaps.into_iter().filter(|(left, _)| *left > 0).map(|(_, step)| step));
        steps
    }

    fn steps_of(&self, model: &Model, client: usize, steps: &mut Vec<Step>) {
        let desk = &self.store.desk;
        if self.asked[client] && self.joins(model, client) {
            steps.push(Step::EnterAgain(client));
        }
        let may_ask = match model.clients[client] {
            Client::Follows { client: first, .. } => desk.find(lease(first)).is_some(),
            _ => true,
        };
        if !self.asked[client] && may_ask {
            steps.push(Step::Ask(client));
        }
        if desk.waiting.iter().any(|waiting| waiting.id == ticket(client)) {
            steps.push(Step::Withdraw(client));
        }
        // Of what has ended nothing but a refusal comes, which the cases show.
        if let Some(held) = desk.find(lease(client)) {
            steps.extend([Step::Renew(client), Step::Release(client, false)]);
            if !held.implicit {
                steps.push(Step::Present(client));
                steps.push(Step::Release(client, true));
            }
            if self.left.breaks > 0 && held.stage != Stage::Active {
                steps.push(Step::Break(client));
            }
        }
    }

    pub fn after(&self, model: &Model, step: &Step) -> Result<Self, Broken> {
        let mut next = self.clone();
        next.take(model, step)?;
        rules::always(&next)?;
        next.forget(model)?;
        Ok(next)
    }

    fn take(&mut self, model: &Model, step: &Step) -> Result<(), Broken> {
        match *step {
            Step::Ask(client) => self.ask(model, client),
            Step::EnterAgain(client) => self.enter(model, client),
            Step::Present(client) => self.work(model, Event::Present { lease: lease(client) }),
            Step::Renew(client) => self.decide(model, Event::Renew { lease: lease(client) }).map(drop),
            Step::Release(client, work) => self.decide(model, Event::Release { lease: lease(client), work }).map(drop),
            Step::Withdraw(client) => self.decide(model, Event::Withdraw { ticket: ticket(client) }).map(drop),
            Step::Break(client) => {
                self.left.breaks -= 1;
                self.decide(model, Event::Break { lease: lease(client) }).map(drop)
            }
            Step::Tick => {
                self.now.at += STEP;
                Ok(())
            }
            Step::Look => self.decide(model, Event::Look).map(drop),
            Step::Sweep => self.decide(model, Event::Sweep).map(drop),
            Step::SendAgain => {
                self.sent.extend(self.store.desk.barrier().map(|barrier| (barrier.into(), self.server)));
                Ok(())
            }
            Step::CloseRecords => self.close_records(model),
            Step::StartArrives(program, server) => self.start_arrives(model, program, server),
            Step::StartLost(program, server) => {
                self.starts.remove(&(program, server));
                Ok(())
            }
            Step::Arrives(Message::Barrier { fence, owner, stop }, server) => {
                self.barrier_arrives(model, fence, owner, stop, server).map(drop)
            }
            Step::Arrives(ref message, _) => self.answer_arrives(model, message),
            Step::ProgramEnds(program) => {
                self.steward.running.remove(&program);
                Ok(())
            }
            Step::ServerDies => {
                self.left.server_crashes -= 1;
                self.server_dies(model);
                Ok(())
            }
            Step::StewardDies => {
                self.left.steward_crashes -= 1;
                self.steward_dies(model);
                Ok(())
            }
            Step::BackUp => {
                self.backup = Some(Box::new(self.store.clone()));
                Ok(())
            }
            Step::Restore { said_so } => {
                self.left.restores -= 1;
                self.restore(model, said_so);
                Ok(())
            }
            Step::AnotherEra => {
                self.left.eras -= 1;
                self.now = Moment { era: self.now.era + 1, at: 0 };
                if model.local {
                    self.steward_dies(model);
                }
                Ok(())
            }
        }
    }

    fn ask(&mut self, model: &Model, client: usize) -> Result<(), Broken> {
        self.asked[client] = true;
        let (lease, ticket) = (lease(client), ticket(client));
        let event = match model.clients[client] {
            Client::Enters { .. } => return self.enter(model, client),
            Client::Acquires { who, bind, mode, on_busy, priority } => {
                let wanted = Wanted { principal: principal(who), bind, mode, ttl: TTL, max_lifetime: Some(LONGEST) };
                Event::Acquire { wanted, on_busy, priority, wait: WAIT, lease, ticket }
            }
            Client::Follows { client, who } => {
                Event::Transfer { lease: super::cast::lease(client), to: principal(who), bind: LeaseBind::Token, successor: lease }
            }
        };
        self.decide(model, event).map(drop)
    }

    /// Whether a call would find a lease of its own, and take no other: each client has one.
    fn joins(&self, model: &Model, client: usize) -> bool {
        let Client::Enters { who } = model.clients[client] else { return false };
        let event = Event::Enter { principal: principal(who), lease: lease(client) };
        let decision = decide(self.store.desk.clone(), event, self.seen());
        decision.answer.is_ok() && !decision.effects.contains(&Effect::Began { lease: lease(client), ticket: None })
    }

    fn enter(&mut self, model: &Model, client: usize) -> Result<(), Broken> {
        let Client::Enters { who } = model.clients[client] else { return Ok(()) };
        self.work(model, Event::Enter { principal: principal(who), lease: lease(client) })
    }
}
