//! Who may still do something here. What has an earlier warrant than the latest that was heard of is refused, and a barrier ends everything that
//! was begun under an earlier one: by the end of init, so that nothing inside can get out of the way of it.

use stead_domain::process::ExitCause;

use super::kept::State;
use super::{Leaving, Steward, clock};
use crate::protocol::{Answer, Refusal};
use crate::warrant::Warrant;

impl Steward {
    /// Whoever has no warrant changes nothing, or is the server itself.
    pub(super) fn admit(&self, warrant: Option<Warrant>) -> Result<(), Refusal> {
        if warrant.is_some_and(|warrant| warrant.is_overruled_by(self.heard)) { Err(Refusal::Fenced) } else { Ok(()) }
    }

    /// Something begins under a warrant: from now on nothing does under an earlier one. It is not on the disk, because no barrier was asked for;
    /// and for the same reason what runs goes on, under the new one.
    pub(super) fn hear_of(&mut self, warrant: Option<Warrant>) {
        let Some(heard) = warrant.map(|warrant| warrant.after(self.heard)).filter(|heard| *heard != self.heard) else { return };
        self.heard = heard;
        for kept in self.processes.values_mut() {
            kept.warrant = kept.warrant.map(|_| heard);
        }
    }

    /// The answer comes when everything is gone and written down. Where nothing runs it comes at once, and the place stays.
    pub(super) fn barrier(&mut self, peer: u64, number: u64, warrant: Warrant, stop: bool) -> Result<Option<Answer>, Refusal> {
        if warrant.is_overruled_by(self.heard) {
            return Err(Refusal::Stale { fence: self.heard.fence });
        }
        let after = warrant.after(self.heard);
        if !stop {
            // What runs was taken over by whoever has it, and goes on.
            self.heard = after;
            return Ok(Some(Answer::Done));
        }
        let runs_under_an_earlier_one =
            self.processes.values().any(|kept| kept.runs() && kept.warrant.is_some_and(|of| of.is_overruled_by(after)));
        let had = after == self.heard && !runs_under_an_earlier_one;
        self.heard = after;
        if had && !self.inside.is_over() {
            return Ok(Some(Answer::Done));
        }
        // Who has ended by itself was not ended by us.
        self.hear_init();
        if !self.inside.is_over() {
            if self.nothing_runs() {
                return Ok(Some(Answer::Done));
            }
            self.end_the_fenced();
        }
        self.leave_for(peer, number);
        Ok(None)
    }

    /// Whether nothing at all runs inside. In doubt something does.
    fn nothing_runs(&mut self) -> bool {
        !self.processes.values().any(|kept| kept.runs()) && !self.errands.under_way().any() && self.inside.is_surely_empty()
    }

    fn end_the_fenced(&mut self) {
        let mut asked = Vec::new();
        for kept in self.processes.values_mut().filter(|kept| kept.runs()) {
            kept.ended_by = Some(ExitCause::Fenced);
            if let State::Asked { peer, number } = kept.state {
                asked.push((peer, number));
            }
        }
        self.inside.end();
        self.end_what_is_left(ExitCause::Fenced);
        // Whether it had begun is not known any more: what is written down says how it ended.
        for (peer, number) in asked {
            self.answer(peer, number, Answer::Known);
        }
    }

    /// Has the steward leave at once, and tell this one when everything is written down.
    fn leave_for(&mut self, peer: u64, number: u64) {
        let now = clock::milliseconds();
        let leaving = self.leaving.get_or_insert_with(|| Leaving { asked_by: Vec::new(), deadline: now });
        leaving.asked_by.push((peer, number));
        leaving.deadline = now;
    }
}
