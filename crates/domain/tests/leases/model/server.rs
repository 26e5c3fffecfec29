//! The server: it decides, saves, and sends what follows.

use stead_domain::ids::LeaseId;
use stead_domain::lease::{Answer, Decision, Desk, Effect, Event, Refusal, Seen, decide};
use stead_domain::sandbox::FENCE_JUMP;

use super::cast::{Fault, Model};
use super::rules::{self, Broken};
use super::state::{Message, Program, State};

impl State {
    pub fn seen(&self) -> Seen {
        Seen { now: self.now, running: !self.store.records.is_empty() }
    }

    /// One unit of work.
    pub fn decide(&mut self, model: &Model, event: Event) -> Result<Result<Answer, Refusal>, Broken> {
        let before = self.store.desk.clone();
        let Decision { mut desk, mut effects, answer } = decide(before.clone(), event, self.seen());
        rules::repeated(&desk, event, self.seen())?;
        if model.has(Fault::NoBarrier) {
            desk.dirty = None;
        }
        if model.has(Fault::EndUntold) {
            effects.retain(|effect| !matches!(effect, Effect::Ended { .. }) || !effects_begin(&desk, &before));
        }
        if model.has(Fault::Unlocked) && matches!(event, Event::Acquire { .. }) {
            Decision { desk, effects, .. } = decide(Desk { leases: Vec::new(), ..before.clone() }, event, self.seen());
            desk.leases.extend(&before.leases);
        }
        self.store.desk = desk;
        rules::decided(self, &before, event, &effects)?;
        for effect in effects {
            if let Effect::Barrier(barrier) = effect {
                self.sent.insert((barrier.into(), self.server));
            }
        }
        Ok(answer)
    }

    /// Somebody does something: the record is written with the decision, the order to start it follows.
    pub fn work(&mut self, model: &Model, event: Event) -> Result<(), Broken> {
        if let Ok(Answer::Pass { fence }) = self.decide(model, event)?
            && let Some(lease) = self.worker(event)
        {
            let program = Program { lease, fence };
            if !model.has(Fault::Unrecorded) {
                self.store.records.insert(program);
            }
            if !self.steward.running.contains(&program) {
                self.starts.insert((program, self.server));
            }
        }
        Ok(())
    }

    fn worker(&self, event: Event) -> Option<LeaseId> {
        match event {
            Event::Present { lease } => Some(lease),
            _ => self.store.desk.exclusive().map(|holder| holder.id),
        }
    }

    pub fn answer_arrives(&mut self, model: &Model, message: &Message) -> Result<(), Broken> {
        let event = match message {
            Message::Done { fence, running } => {
                if *fence == self.store.desk.fence {
                    // The records follow first. What a store that came back does not know of runs all the same.
                    self.store.records.retain(|program| program.fence >= *fence || running.contains(program));
                    if self.store.desk.unconfirmed {
                        self.store.records.extend(running);
                    }
                }
                Event::BarrierDone { fence: *fence }
            }
            Message::Stale { sent, highest } => {
                let sent = if model.has(Fault::RefusalsMixedUp) { self.store.desk.fence } else { *sent };
                Event::BarrierStale { sent, highest: *highest }
            }
            Message::Barrier { .. } => return Ok(()),
        };
        self.decide(model, event).map(drop)
    }

    /// Records of what neither runs nor is on its way are closed.
    pub fn close_records(&mut self, model: &Model) -> Result<(), Broken> {
        let early = model.has(Fault::RecordsClosedEarly);
        let (starts, running) = (&self.starts, &self.steward.running);
        self.store
            .records
            .retain(|program| running.contains(program) || (!early && starts.iter().any(|(on_its_way, _)| on_its_way == program)));
        self.decide(model, Event::Look).map(drop)
    }

    /// Another one begins with what is in the store. What the one before sent may still arrive, and nobody hears the answer.
    pub fn server_dies(&mut self, model: &Model) {
        self.server += 1;
        self.sent.retain(|(message, _)| matches!(message, Message::Barrier { .. }));
        self.store.desk.unconfirmed = !model.has(Fault::TrustsTheStore);
        if model.has(Fault::OrderLost) {
            self.store.desk.waiting.reverse();
        }
    }

    /// An older state comes back. That takes longer than anything is on its way.
    pub fn restore(&mut self, model: &Model, said_so: bool) {
        let Some(backup) = self.backup.take() else { return };
        self.store = *backup;
        self.history.restored = !said_so;
        if said_so {
            let fence = self.store.desk.fence + FENCE_JUMP;
            self.store.desk = Desk { dirty: Some(fence), ..Desk::new(self.store.desk.rules, fence) };
            self.store.line.clear();
        } else {
            self.history.given = self.store.desk.fence;
        }
        self.history.live = self.store.desk.leases.iter().map(|lease| lease.id).collect();
        self.starts.clear();
        self.sent.clear();
        self.server_dies(model);
    }
}

fn effects_begin(after: &Desk, before: &Desk) -> bool {
    after.leases.iter().any(|lease| before.find(lease.id).is_none())
}
