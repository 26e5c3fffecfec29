//! The keeper looks after what happens by itself: leases that expire, tickets that run out, barriers that were not through. One task for all of
//! them: a lease that is held costs none of its own, and no timer either.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::ready;
use futures::{StreamExt, stream};
use stead_domain::ids::SandboxId;
use stead_domain::lease::{Deadline, Event, Moment};
use stead_domain::{Error, Result};
use stead_store::{Dialect, desks, environments, leases, tickets};
use tokio::sync::Notify;

use super::deciding::Asked;
use crate::App;

/// How long it sleeps at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// On a database that others write to as well.
const SHARED: Duration = Duration::from_millis(250);
/// So many sandboxes are looked at at a time.
const AT_ONCE: usize = 16;
/// How often it looks at what is due before it draws breath.
const ROUNDS: usize = 20;
/// How often it asks for barriers that were not through, and for leases under which nothing runs any more.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// How long ended tickets, and leases that calls took for themselves, are remembered.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// When something is due next, as far as this server knows.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// A moment of the store's clock, in milliseconds.
    next: AtomicU64,
    sooner: Notify,
}

impl Default for Keeper {
    fn default() -> Self {
        Self { next: AtomicU64::new(u64::MAX), sooner: Notify::new() }
    }
}

impl Keeper {
    /// Something is due then: the keeper is woken if it meant to sleep for longer.
    pub fn expects(&self, due: Deadline, now: Moment) {
        if due.era == now.era && self.next.fetch_min(due.at, Ordering::AcqRel) > due.at {
            self.sooner.notify_one();
        }
    }
}

impl App {
    pub(crate) async fn run_lease_keeper(&self) {
        let most = if self.store.dialect() == Dialect::Postgres { SHARED } else { LOOK_EVERY };
        let mut swept: Option<tokio::time::Instant> = None;
        loop {
            let next = match self.keep_leases().await {
                Ok(next) => next.map_or(most, |next| most.min(Duration::from_millis(next.max(1)))),
                Err(error) => {
                    tracing::warn!(%error, cause = error.internal_cause(), "leases could not be looked after; it is tried again");
                    Duration::from_secs(1)
                }
            };
            if swept.is_none_or(|swept| swept.elapsed() >= SWEEP_EVERY) {
                swept = Some(tokio::time::Instant::now());
                self.sweep_behind();
            } else if self.store.dialect() == Dialect::Postgres
                && let Err(error) = self.carry_unsettled().await
            {
                // Another server may have left it to this one.
                tracing::warn!(%error, cause = error.internal_cause(), "what leases left could not be looked after");
            }
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.lease_keeper.sooner.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// Looks at every sandbox where something is due, and tells when the next is.
    pub async fn keep_leases(&self) -> Result<Option<u64>> {
        for _ in 0..ROUNDS {
            self.lease_keeper.next.store(u64::MAX, Ordering::Release);
            let host = self.host;
            let (due, now, next) =
                self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(desks::due_now(unit, host).await?) })).await?;
            if due.is_empty() {
                // Whoever expects something later than that wakes nobody.
                self.lease_keeper.next.fetch_min(next.unwrap_or(u64::MAX), Ordering::AcqRel);
                return Ok(next.map(|next| next.saturating_sub(now.at)));
            }
            // One that cannot be looked at, or does not answer, keeps nobody else from it.
            let looked = stream::iter(due).map(|sandbox| self.look_after(sandbox)).buffer_unordered(AT_ONCE);
            if let Some(error) = looked.filter_map(|outcome| ready(outcome.err())).collect::<Vec<_>>().await.pop() {
                return Err(error);
            }
        }
        Ok(Some(0))
    }

    /// Brings one sandbox up to the moment.
    pub(crate) async fn look_after(&self, sandbox: SandboxId) -> Result<()> {
        let office = self.office();
        let sharing =
            self.store.glance(move |unit| Box::pin(async move { Ok::<_, Error>(environments::sharing(unit, sandbox).await?) })).await?;
        let Some(environment) = sharing.into_iter().next() else {
            return self.store.write(move |unit| Box::pin(async move { Ok::<_, Error>(desks::forget_due(unit, sandbox).await?) })).await;
        };
        let asked = Asked { quiet: self.ask_for_quiet(&environment).await, ..Asked::by_itself(Event::Look) };
        self.decide(sandbox, None, asked, office).await.map(drop)
    }

    /// Something of theirs has ended, and others wait.
    pub(crate) fn look_after_behind(&self, sandboxes: Vec<SandboxId>) {
        if sandboxes.is_empty() {
            return;
        }
        let app = self.clone();
        self.tasks.spawn(async move {
            for sandbox in sandboxes {
                if let Err(error) = app.look_after(sandbox).await {
                    tracing::warn!(%sandbox, %error, "whoever waits for it is looked after later");
                }
            }
        });
    }

    /// The sweep, beside what is due: those who do not answer hold up no deadline. One at a time.
    fn sweep_behind(&self) {
        let Some(one) = self.locks.try_lock("lease-sweep") else { return };
        let app = self.clone();
        self.tasks.spawn(async move {
            if let Err(error) = app.sweep_leases().await {
                tracing::warn!(%error, cause = error.internal_cause(), "what leases left could not be looked after");
            }
            drop(one);
        });
    }

    /// Barriers that are not through, what unclean ends left, and implicit leases under which nothing runs any more.
    pub async fn sweep_leases(&self) -> Result<()> {
        let host = self.host;
        let mut idle = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    let mut idle = leases::idle(unit, host).await?;
                    idle.extend(tickets::all_waited_for(unit, host).await?);
                    Ok::<_, Error>(idle)
                })
            })
            .await?;
        idle.sort();
        idle.dedup();
        let looked = stream::iter(idle).map(async |sandbox| (sandbox, self.look_after(sandbox).await)).buffer_unordered(AT_ONCE);
        looked
            .for_each(|(sandbox, outcome)| {
                if let Err(error) = outcome {
                    tracing::warn!(%sandbox, %error, cause = error.internal_cause(), "its lease could not be looked after");
                }
                ready(())
            })
            .await;
        self.carry_unsettled().await?;
        self.sweep_tokens().await?;
        let before = self.context.now().minus(REMEMBERED);
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    tickets::delete_ended(unit, before).await?;
                    leases::delete_implicit(unit, before).await?;
                    Ok::<_, Error>(())
                })
            })
            .await
    }

    /// Carries the barriers of this host that nobody carries, each by itself.
    async fn carry_unsettled(&self) -> Result<()> {
        let own = self.office().own;
        let unsettled = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(desks::unsettled(unit, own).await?) })).await?;
        for sandbox in unsettled {
            // Each by itself: whoever does not answer holds up nobody else, and is not asked twice at a time.
            let Some(one) = self.locks.try_lock(&super::barrier::lock_of(sandbox)) else { continue };
            let app = self.clone();
            self.tasks.spawn(async move {
                if let Err(error) = app.carry_alone(sandbox).await {
                    tracing::warn!(%sandbox, %error, cause = error.internal_cause(), "what a lease left is not settled yet");
                }
                drop(one);
            });
        }
        Ok(())
    }
}
