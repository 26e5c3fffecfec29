//! Keeping a lease while something is done under it, and finding out in time that it is lost.
//!
//! Its time is counted from when a renewal was sent, on a clock that only goes forward, and four fifths of it are believed: whoever holds a
//! lease has stopped before the server lets anybody else in. That clock stands still while the machine sleeps, so a tick beside it compares
//! the time of day.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use stead_client::ClientError;
use stead_domain::lease::{Directive, RenewReply};
use stead_domain::{Context, Timestamp};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

const TICK: Duration = Duration::from_secs(1);
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

/// For how long it is still held, as far as is known here.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// When it was asked for.
    pub sent: Instant,
    pub lasts: Duration,
}

impl Term {
    pub fn new(sent: Instant, lasts_ms: u64) -> Self {
        Self { sent, lasts: Duration::from_millis(lasts_ms) }
    }

    fn renewal(&self) -> Instant {
        self.sent + self.lasts / 3
    }

    fn end(&self) -> Instant {
        self.sent + self.lasts * 4 / 5
    }
}

type Renewal<'a> = Pin<Box<dyn Future<Output = (Instant, Result<RenewReply, ClientError>)> + 'a>>;

/// Renews until the lease is lost. `finish_up` is called once, when the server asks for it.
pub async fn keep(
    term: Term,
    context: &Context,
    renew: impl AsyncFn() -> Result<RenewReply, ClientError>,
    mut finish_up: impl FnMut(),
) -> Loss {
    let renew = &renew;
    let send = || -> Renewal<'_> {
        let sent = Instant::now();
        Box::pin(async move { (sent, renew().await) })
    };
    let (mut term, mut next, mut end) = (term, term.renewal(), term.end());
    let (mut renewing, mut is_told): (Option<Renewal<'_>>, bool) = (None, false);
    // What was asked for long ago, as by somebody who waited in a queue, is known again only after a renewal.
    let mut doubt: Option<Loss> = None;
    if next <= Instant::now() {
        (next, end) = (Instant::now(), Instant::now() + AFTER_GAP.min(term.lasts));
        doubt = Some(Loss::Silence(term.lasts * 4 / 5));
    }
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: Timestamp = context.now();
    loop {
        tokio::select! {
            biased;
            () = sleep_until(end) => return doubt.unwrap_or(Loss::Silence(term.lasts * 4 / 5)),
            _ = tick.tick() => {
                let before = std::mem::replace(&mut seen, context.now());
                if seen.since(before) > TICK + GAP {
                    doubt = Some(Loss::Slept);
                    end = end.min(Instant::now() + AFTER_GAP);
                    renewing = Some(send());
                }
            }
            (sent, renewed) = under_way(&mut renewing) => {
                renewing = None;
                match renewed {
                    Ok(RenewReply { directive: Directive::Stop, .. }) => return Loss::Stop,
                    Ok(renewed) => {
                        if renewed.directive == Directive::FinishUp && !std::mem::replace(&mut is_told, true) {
                            finish_up();
                        }
                        term = Term::new(sent, renewed.expires_in_ms);
                        (next, end, doubt) = (term.renewal(), term.end(), None);
                    }
                    Err(error) if is_final(&error) => return Loss::Told(error),
                    Err(_) => next = Instant::now() + AGAIN.min(term.lasts / 10),
                }
            }
            () = sleep_until(next), if renewing.is_none() => renewing = Some(send()),
        }
    }
}

async fn under_way(renewing: &mut Option<Renewal<'_>>) -> (Instant, Result<RenewReply, ClientError>) {
    match renewing {
        Some(renewing) => renewing.await,
        None => pending().await,
    }
}

/// The server has refused, and would again.
fn is_final(error: &ClientError) -> bool {
    matches!(error, ClientError::Reply { status, .. } if (400..500).contains(status) && *status != 429)
}

#[cfg(test)]
#[path = "keeping_tests.rs"]
mod tests;
