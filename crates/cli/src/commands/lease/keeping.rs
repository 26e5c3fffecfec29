//! Keeping a lease while something is done under it: it is renewed until it is lost.

use std::future::{Future, pending};
use std::pin::Pin;

use stead_client::ClientError;
use stead_domain::Context;
use stead_domain::lease::RenewReply;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::vigil::{Loss, TICK, Term, Vigil};

type Answer = Result<RenewReply, ClientError>;
type Renewal<'a> = Pin<Box<dyn Future<Output = (Instant, Answer)> + 'a>>;

/// Renews until the lease is lost. `finish_up` is called once, when the server asks for it.
pub async fn keep(term: Term, context: &Context, renew: impl AsyncFn() -> Answer, finish_up: impl Fn()) -> Loss {
    let renew = &renew;
    let send = || -> Renewal<'_> {
        let sent = Instant::now();
        Box::pin(async move { (sent, renew().await) })
    };
    let mut vigil = Vigil::new(term, Instant::now(), context.now());
    let mut renewing: Option<Renewal<'_>> = None;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // Whoever comes too late has lost it, whatever else has come meanwhile.
            biased;
            () = sleep_until(vigil.end()) => return vigil.over(),
            _ = tick.tick() => {
                if vigil.tick(Instant::now(), context.now()) {
                    // One that was sent before the sleep may never be answered.
                    renewing = Some(send());
                }
            }
            (sent, answer) = under_way(&mut renewing) => {
                renewing = None;
                match vigil.answered(Instant::now(), sent, answer) {
                    Ok(true) => finish_up(),
                    Ok(false) => {}
                    Err(loss) => return loss,
                }
            }
            () = sleep_until(vigil.next()), if renewing.is_none() => renewing = Some(send()),
        }
    }
}

async fn under_way(renewing: &mut Option<Renewal<'_>>) -> (Instant, Answer) {
    match renewing {
        Some(renewing) => renewing.await,
        None => pending().await,
    }
}
