//! The steward: what it lets through, and what it stops.

use std::collections::BTreeSet;

use stead_domain::ids::LeaseId;

use super::cast::{Fault, Model};
use super::rules::{self, Broken};
use super::state::{Message, Program, State};

impl State {
    /// What it refuses it answers with the highest that it has seen.
    fn see(&mut self, model: &Model, fence: u64, owner: Option<LeaseId>) -> Result<(), u64> {
        let steward = &mut self.steward;
        let another = fence == steward.highest && owner != steward.owner && !model.has(Fault::StewardKnowsNobody);
        if (fence < steward.highest || another) && !model.has(Fault::StewardObeys) {
            return Err(steward.highest);
        }
        (steward.highest, steward.owner) = (fence, owner);
        Ok(())
    }

    pub fn start_arrives(&mut self, model: &Model, program: Program, server: u8) -> Result<(), Broken> {
        self.starts.remove(&(program, server));
        match self.see(model, program.fence, Some(program.lease)) {
            Ok(()) => {
                rules::starts(self, program)?;
                self.steward.running.insert(program);
            }
            Err(highest) => self.answer(server, Message::Stale { sent: program.fence, highest }),
        }
        Ok(())
    }

    pub fn barrier_arrives(
        &mut self,
        model: &Model,
        fence: u64,
        owner: Option<LeaseId>,
        stop: bool,
        server: u8,
    ) -> Result<Option<Message>, Broken> {
        if model.has(Fault::Silent) {
            return Ok(None);
        }
        let answer = match self.see(model, fence, owner) {
            Ok(()) => {
                if (stop || model.has(Fault::StopsAlways)) && !model.has(Fault::AnsweredFirst) {
                    let (stay, go): (BTreeSet<_>, BTreeSet<_>) = self.steward.running.iter().partition(|program| program.fence >= fence);
                    self.steward.running = stay;
                    rules::stops(self, &go)?;
                }
                if stop {
                    self.history.stopped = self.history.stopped.max(fence);
                }
                Message::Done { fence, running: self.steward.running.clone() }
            }
            Err(highest) => Message::Stale { sent: fence, highest },
        };
        self.answer(server, answer.clone());
        Ok(Some(answer))
    }

    /// A server that is gone is told nothing.
    fn answer(&mut self, server: u8, message: Message) {
        if server == self.server {
            self.sent.insert((message, server));
        }
    }

    pub fn steward_dies(&mut self, model: &Model) {
        self.steward.running.clear();
        if model.has(Fault::StewardForgets) {
            (self.steward.highest, self.steward.owner) = (0, None);
        }
    }
}
