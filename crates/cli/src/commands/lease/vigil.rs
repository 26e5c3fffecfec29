//! Whether a lease is still held, as far as can be known here. Time comes in as an argument.
//!
//! It is counted from when a renewal was sent, on a clock that only goes forward, and four fifths of it are believed: whoever holds a lease
//! has stopped before the server lets anybody else in. That clock stands still while the machine sleeps, so a tick beside it compares the
//! time of day.

use std::time::Duration;

use stead_client::ClientError;
use stead_domain::Timestamp;
use stead_domain::lease::{Directive, RenewReply};
use tokio::time::Instant;

pub const TICK: Duration = Duration::from_secs(1);
/// A tick that comes so much later found the machine asleep, or this command stopped.
const GAP: Duration = Duration::from_secs(5);
/// How long a renewal after such a gap may take before the lease counts as lost.
const AFTER_GAP: Duration = Duration::from_secs(5);
/// How soon a renewal that nobody answered is sent again, at the latest.
const AGAIN: Duration = Duration::from_secs(1);

/// Why a lease counts as lost.
#[derive(Debug)]
pub enum Loss {
    /// The server said so.
    Told(ClientError),
    /// The server said to stop.
    Stop,
    /// No renewal came through for so long.
    Silence(Duration),
    /// The machine slept, and no renewal came through afterwards.
    Slept,
}

/// What was last said of its time.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// When that was asked for.
    pub sent: Instant,
    pub lasts: Duration,
}

impl Term {
    pub fn new(sent: Instant, lasts_ms: u64) -> Self {
        Self { sent, lasts: Duration::from_millis(lasts_ms) }
    }

    fn believed(&self) -> Duration {
        self.lasts * 4 / 5
    }
}

#[derive(Debug)]
pub struct Vigil {
    term: Term,
    /// When to renew.
    next: Instant,
    /// When it counts as lost.
    end: Instant,
    slept: bool,
    seen: Timestamp,
    finishing: bool,
}

impl Vigil {
    pub fn new(term: Term, now: Instant, day: Timestamp) -> Self {
        let (mut next, mut end) = (term.sent + term.lasts / 3, term.sent + term.believed());
        if next <= now {
            // Asked for long ago, as by somebody who waited in a queue: a renewal shows what is left of it.
            (next, end) = (now, now + AFTER_GAP.min(term.lasts));
        }
        Self { term, next, end, slept: false, seen: day, finishing: false }
    }

    pub fn next(&self) -> Instant {
        self.next
    }

    pub fn end(&self) -> Instant {
        self.end
    }

    /// A second has passed, or more than that. True when it has to be renewed at once.
    pub fn tick(&mut self, now: Instant, day: Timestamp) -> bool {
        let before = std::mem::replace(&mut self.seen, day);
        let slept = day.since(before) > TICK + GAP;
        if slept {
            self.slept = true;
            self.end = self.end.min(now + AFTER_GAP);
        }
        slept
    }

    /// A renewal was answered, or will not be. True when the holder has to be told, once, that it should finish up.
    pub fn answered(&mut self, now: Instant, sent: Instant, answer: Result<RenewReply, ClientError>) -> Result<bool, Loss> {
        match answer {
            Ok(RenewReply { directive: Directive::Stop, .. }) => Err(Loss::Stop),
            Ok(renewed) => {
                self.term = Term::new(sent, renewed.expires_in_ms);
                (self.next, self.end) = (sent + self.term.lasts / 3, sent + self.term.believed());
                self.slept = false;
                Ok(renewed.directive == Directive::FinishUp && !std::mem::replace(&mut self.finishing, true))
            }
            Err(error) if is_final(&error) => Err(Loss::Told(error)),
            Err(_) => {
                self.next = now + AGAIN.min(self.term.lasts / 10);
                Ok(false)
            }
        }
    }

    /// What it is that has happened at [`Self::end`].
    pub fn over(&self) -> Loss {
        if self.slept { Loss::Slept } else { Loss::Silence(self.term.believed()) }
    }
}

/// The server has refused, and would again.
fn is_final(error: &ClientError) -> bool {
    matches!(error, ClientError::Reply { status, .. } if (400..500).contains(status) && *status != 429)
}

#[cfg(test)]
#[path = "vigil_tests.rs"]
mod tests;
