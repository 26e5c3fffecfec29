//! Everything inside stands still while somebody makes a copy of its files. It goes on when that one says so or is gone, and after a while
//! in any case: nobody's death leaves a place that does not move.

use stead_domain::process::ExitCause;

use super::{Steward, clock};
use crate::protocol::{Answer, Call, Refusal, Request};

/// How long it may take until everybody stands.
const SETTLING: u64 = 3000;
/// How often it is looked whether they do.
const LOOK: u64 = 1;

pub struct Stillness {
    /// Who asked for it, and under which number if the answer is still owed.
    peer: u64,
    owed: Option<u64>,
    at_most: u64,
    /// When they go on even if nobody says so.
    until: u64,
    /// When the next look is due, until everybody stands.
    look_at: Option<u64>,
    /// What only init can do, for when it hears again: a full socket would have us wait for it, and it waits for us.
    held: Vec<(u64, Request, Vec<u8>)>,
}

/// Whether init has to hear of it.
fn needs_init(call: &Call) -> bool {
    matches!(call, Call::Start(_) | Call::Signal { .. } | Call::Errand { .. })
}

impl Steward {
    /// Keeps a call for later that nobody inside can be asked for now; gives it back if there is no need to.
    pub(super) fn hold_back(&mut self, peer: u64, request: Request, bytes: &[u8]) -> Option<Request> {
        match &mut self.stillness {
            Some(stillness) if needs_init(&request.call) => {
                stillness.held.push((peer, request, bytes.to_vec()));
                None
            }
            _ => Some(request),
        }
    }

    /// The answer comes when everybody stands, or it turns out that they do not.
    pub(super) fn freeze(&mut self, peer: u64, number: u64, at_most: u64) -> Result<Option<Answer>, Refusal> {
        if self.leaving.is_some() || self.inside.is_over() {
            return Err(Refusal::Leaving);
        }
        let cannot = |message: String| Refusal::CannotStandStill { message };
        if self.stillness.is_some() {
            return Err(cannot("somebody else has it stand still already".to_owned()));
        }
        let freezer = self.inside.freezer(&self.blueprint).map_err(|error| cannot(error.to_string()))?;
        if let Err(error) = freezer.freeze() {
            let _ = freezer.thaw();
            return Err(cannot(error.to_string()));
        }
        let now = clock::milliseconds();
        let (until, owed) = (now + SETTLING, Some(number));
        self.stillness = Some(Stillness { peer, owed, at_most, until, look_at: Some(now), held: Vec::new() });
        Ok(None)
    }

    /// Refused when they did not stand still all the time since it was asked for.
    pub(super) fn thaw(&mut self, peer: u64) -> Result<Answer, Refusal> {
        let stood = self.stillness.as_ref().is_some_and(|stillness| stillness.peer == peer && stillness.owed.is_none());
        let stood = stood && !self.inside.is_over();
        let ours = self.stillness.as_ref().is_some_and(|stillness| stillness.peer == peer);
        if ours {
            self.go_on();
        }
        if stood && !self.inside.is_over() { Ok(Answer::Done) } else { Err(Refusal::Thawed) }
    }

    /// Has everything go on, and does what waited for that.
    pub(super) fn go_on(&mut self) {
        let Some(stillness) = self.stillness.take() else { return };
        if self.inside.go_on().is_err() && !self.inside.is_over() {
            // What cannot go on is not left standing for ever.
            self.inside.end();
            self.end_what_is_left(ExitCause::Lost);
        }
        if let Some(number) = stillness.owed {
            let message = "it was ended before everything stood still".to_owned();
            self.answer(stillness.peer, number, Answer::Refused(Refusal::CannotStandStill { message }));
        }
        for (peer, request, bytes) in stillness.held {
            self.call(peer, request, &bytes);
        }
    }

    pub(super) fn stillness_due(&self) -> Option<u64> {
        self.stillness.as_ref().map(|stillness| stillness.look_at.unwrap_or(stillness.until))
    }

    pub(super) fn tend_stillness(&mut self, now: u64) {
        let Some(stillness) = &mut self.stillness else { return };
        let is_too_long = stillness.owed.is_none() && now >= stillness.until;
        if !self.peers.contains_key(&stillness.peer) || is_too_long || self.inside.is_over() {
            return self.go_on();
        }
        if stillness.look_at.is_none_or(|look_at| now < look_at) {
            return;
        }
        stillness.look_at = Some(now + LOOK);
        let outcome = match self.inside.is_still() {
            Ok(false) if now < stillness.until => return,
            Ok(false) => Err("not everything inside could be made to stand still; something may be waiting for a disk".to_owned()),
            Ok(true) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        let (peer, Some(number)) = (stillness.peer, stillness.owed.take()) else { return };
        stillness.look_at = None;
        stillness.until = now.saturating_add(stillness.at_most);
        match outcome {
            Ok(()) => self.answer(peer, number, Answer::Done),
            Err(message) => {
                self.go_on();
                self.answer(peer, number, Answer::Refused(Refusal::CannotStandStill { message }));
            }
        }
    }
}
