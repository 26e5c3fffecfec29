//! The barrier between two holders: what the one before left is stopped by the place, its ends are written down, what was to be done at its
//! release is done, and only then is anybody let in. Every step can be repeated; whoever is killed in between leaves a row that says so.

use stead_domain::definition::UnreachablePolicy;
use stead_domain::environment::Environment;
use stead_domain::ids::{EnvironmentId, LeaseId, SandboxId};
use stead_domain::lease::{Effect, Event, LeaseRecord, Stage};
use stead_domain::page::{MAXIMUM_LIMIT, PageRequest};
use stead_domain::process::Process;
use stead_domain::{Code, Error, Result};
use stead_store::processes::ProcessFilter;
use stead_store::{desks, environments, leases, processes};

use super::deciding::{Asked, Decided, decide_in};
use super::entering::quarantined;
use super::underway::Quiet;
use super::work::is_wanted;
use crate::App;
use crate::patience::within;
use crate::place::{Barrier, Place, PlaceError, Warrant};

/// How often a store that fell behind its places may catch up at a time.
const ATTEMPTS: usize = 8;
/// How long somebody who waits for news looks by itself at the latest: another server may have decided.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(200);

/// What is between a sandbox and its next holder.
struct Unsettled {
    warrant: Warrant,
    /// Everything that ran before goes. Otherwise the place only says whether somebody else has been there.
    stop: bool,
    environments: Vec<Environment>,
    /// Leases that left something to do, oldest first.
    work: Vec<LeaseRecord>,
    /// The last holder ended without having let go.
    is_takeover: bool,
    /// How often in a row the work failed before.
    failures: u64,
}

impl App {
    /// What follows from a decision outside its unit: whoever waits is told, and a barrier is sent.
    pub(crate) fn follow_up(&self, decided: &Decided) {
        let mut barrier = false;
        decided.over.iter().for_each(|lease| self.waiters.tell(*lease));
        for effect in &decided.effects {
            match effect {
                Effect::Began { lease, .. } | Effect::Activated { lease } => self.waiters.tell(*lease),
                Effect::Ended { lease, .. } => {
                    self.waiters.tell(*lease);
                    self.revoke_tokens_of_lease(*lease);
                }
                Effect::TimedOut { .. } | Effect::Waits(_) => {}
                Effect::Barrier(_) => barrier = true,
            }
        }
        if let Some(due) = decided.desk.due() {
            self.lease_keeper.expects(due, decided.now);
        }
        // Of another host's sandbox that host looks after it.
        if barrier && !decided.elsewhere {
            let (app, sandbox) = (self.clone(), decided.sandbox);
            self.tasks.spawn(async move {
                if let Err(error) = app.carry(sandbox).await {
                    tracing::warn!(%sandbox, %error, cause = error.internal_cause(), "a barrier is not through yet; it is sent again");
                }
            });
        }
    }

    /// Waits until a lease is its holder's, or has ended.
    pub(super) async fn until_settled(
        &self,
        environment: &Environment,
        decided: &Decided,
        lease: LeaseId,
        deadline: tokio::time::Instant,
    ) -> Result<()> {
        let (sandbox, own) = (decided.sandbox, self.office().own);
        let is_here = environment.runtime.host.is_none_or(|host| host == self.host);
        let waiter = self.waiters.of(lease);
        loop {
            let news = waiter.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            // Somebody else may carry it already: then there will be news.
            let one = if is_here { self.locks.try_lock(&lock_of(sandbox)) } else { None };
            let carried = match one {
                Some(_one) => self.carry_alone(sandbox).await,
                None => Ok(()),
            };
            let rules = decided.desk.rules;
            let loaded = self
                .store
                .glance(move |unit| Box::pin(async move { Ok::<_, Error>(desks::look(unit, sandbox, rules, own).await?) }))
                .await?;
            let Some(loaded) = loaded else { return Ok(()) };
            if loaded.desk.find(lease).is_none_or(|found| found.stage == Stage::Active && !loaded.desk.unconfirmed) {
                return Ok(());
            }
            // Nothing is tried any more before somebody has looked at it.
            if let Some(reason) = &loaded.quarantined {
                return Err(quarantined(environment, reason));
            }
            let now = tokio::time::Instant::now();
            if now >= deadline {
                return Err(carried.err().unwrap_or_else(|| fencing(environment)));
            }
            let again = deadline.min(now + LOOK_AGAIN);
            tokio::select! {
                () = news => {}
                () = tokio::time::sleep_until(again) => {}
                () = self.stopping.cancelled() => return Err(fencing(environment)),
            }
        }
    }

    /// Carries a barrier through, if one is wanted, with everything that belongs to it. May be repeated, and is by the keeper.
    pub(crate) async fn carry(&self, sandbox: SandboxId) -> Result<()> {
        let _one = self.locks.lock(&lock_of(sandbox)).await;
        self.carry_alone(sandbox).await
    }

    /// The same, for who has the lock.
    pub(super) async fn carry_alone(&self, sandbox: SandboxId) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let Some(unsettled) = self.unsettled(sandbox).await? else { return Ok(()) };
            let mut locks = Vec::new();
            for environment in &unsettled.environments {
                locks.push(self.locks.lock(&environment.id.to_string()).await);
            }
            let sent = self.send_barrier(sandbox, &unsettled).await;
            drop(locks);
            match sent {
                Ok(()) => {}
                Err(PlaceError::Stale(highest)) => {
                    // A backup was put back, or a grant was lost: whoever the place knows of is behind what is given out from now on.
                    tracing::warn!(%sandbox, highest, fence = unsettled.warrant.fence, "the place has seen a later fence than the store");
                    self.decide(
                        sandbox,
                        None,
                        Asked::by_itself(Event::BarrierStale { sent: unsettled.warrant.fence, highest }),
                        self.office(),
                    )
                    .await?;
                    continue;
                }
                Err(error) => {
                    if !self.give_up_the_place(&unsettled).await? {
                        return Err(unreachable(&unsettled, error));
                    }
                    continue;
                }
            }
            let done = self.do_work(&unsettled.environments, &unsettled.work, unsettled.is_takeover).await;
            if done.is_err() || unsettled.failures > 0 {
                self.note_cleaning(sandbox, &done).await?;
            }
            done?;
            let (office, fence) = (self.office(), unsettled.warrant.fence);
            let emptied = if unsettled.stop { Quiet::Emptied } else { Quiet::Unknown };
            let finished: Vec<LeaseId> = unsettled.work.iter().map(|record| record.lease.id).collect();
            let decided: Option<Decided> = self
                .store
                .write(move |unit| {
                    Box::pin(async move {
                        desks::claim(unit, sandbox).await?;
                        for lease in finished {
                            leases::work_is_done(unit, lease).await?;
                        }
                        let asked = Asked { quiet: emptied, ..Asked::by_itself(Event::BarrierDone { fence }) };
                        decide_in(unit, &office, sandbox, None, asked).await
                    })
                })
                .await?;
            if let Some(decided) = decided {
                self.follow_up(&decided);
            }
            return Ok(());
        }
        Err(Error::new(Code::LeaseFencing, "the store and the place do not agree on a fence yet").recoverable(true).suggestion("try again"))
    }

    /// What the definition says for a place that does not answer. It is never taken for gone: either somebody waits, or it is ended by force
    /// and that is made sure of. Whether the barrier can be sent again.
    async fn give_up_the_place(&self, unsettled: &Unsettled) -> Result<bool> {
        let Some(first) = unsettled.environments.first() else { return Ok(false) };
        let policy = first.spec.lease.as_ref().and_then(|lease| lease.unreachable).unwrap_or(UnreachablePolicy::Wait);
        if policy == UnreachablePolicy::Wait {
            return Ok(false);
        }
        let provider = first.runtime.provider.unwrap_or(first.provider);
        let ground = self.ground(provider, first.runtime.host)?;
        for environment in &unsettled.environments {
            tracing::warn!(environment = %environment.id, "whoever keeps it does not answer, and is ended by force");
            ground.place()?.end_by_force(environment.id).await?;
        }
        if policy == UnreachablePolicy::ForkFromCheckpoint {
            for environment in &unsettled.environments {
                self.go_back(environment).await?;
            }
        }
        Ok(true)
    }

    /// What a barrier is wanted for; none when nothing is.
    async fn unsettled(&self, sandbox: SandboxId) -> Result<Option<Unsettled>> {
        let office = self.office();
        let environments: Vec<Environment> =
            self.store.glance(move |unit| Box::pin(async move { Ok::<_, Error>(environments::sharing(unit, sandbox).await?) })).await?;
        if environments.is_empty() {
            return Ok(None);
        }
        let rules = office.rules_of(&environments);
        let own = office.own;
        // Where nobody holds it, what an unclean end left gets a fence of its own first.
        let dirty_alone = self
            .store
            .glance(move |unit| {
                Box::pin(async move {
                    let loaded = desks::look(unit, sandbox, rules, own).await?;
                    Ok::<_, Error>(loaded.is_some_and(|loaded| loaded.desk.dirty.is_some() && loaded.desk.leases.is_empty()))
                })
            })
            .await?;
        if dirty_alone {
            self.store
                .write(move |unit| {
                    Box::pin(async move { decide_in(unit, &office, sandbox, Some(rules), Asked::by_itself(Event::Sweep)).await.map(drop) })
                })
                .await?;
        }
        self.store
            .read(move |unit| {
                Box::pin(async move {
                    let Some(loaded) = desks::look(unit, sandbox, rules, own).await? else { return Ok::<_, Error>(None) };
                    if loaded.quarantined.is_some() {
                        return Ok(None);
                    }
                    let desk = &loaded.desk;
                    let mut work = leases::with_work(unit, sandbox).await?;
                    let is_takeover = desk.dirty.is_some();
                    work.extend(loaded.leases.iter().filter(|record| record.lease.stage == Stage::Stopping && is_wanted(record)).cloned());
                    let wanted = desk.dirty.is_some() || desk.barrier().is_some() || !work.is_empty();
                    let barrier = desk.barrier_now();
                    let warrant = Warrant { fence: barrier.fence, lease: barrier.owner };
                    Ok(wanted.then_some(Unsettled {
                        warrant,
                        stop: barrier.stop,
                        environments,
                        work,
                        is_takeover,
                        failures: loaded.cleaning_failures,
                    }))
                })
            })
            .await
    }

    /// Nobody starts anything from here until the place has answered, and then everything that ran has an end that is written down.
    async fn send_barrier(&self, sandbox: SandboxId, unsettled: &Unsettled) -> Result<(), PlaceError> {
        let failed = |error: Error| PlaceError::Failed(error.internal_cause().unwrap_or(error.message()).to_owned());
        let Some(first) = unsettled.environments.first() else { return Ok(()) };
        let provider = first.runtime.provider.unwrap_or(first.provider);
        let ground = self.ground(provider, first.runtime.host).map_err(failed)?;
        let place = ground.place().map_err(failed)?;
        let ids: Vec<EnvironmentId> = unsettled.environments.iter().map(|environment| environment.id).collect();
        let mut gates = Vec::new();
        for id in &ids {
            gates.push(self.gates.shut(*id).await);
        }
        within(place.barrier(&Barrier { sandbox, environments: ids.clone(), warrant: unsettled.warrant, stop: unsettled.stop })).await?;
        for id in ids.into_iter().filter(|_| unsettled.stop) {
            self.write_all_ends(place, id).await.map_err(failed)?;
        }
        Ok(())
    }

    /// After a barrier nothing runs: every process of the environment has ended, or was never started.
    async fn write_all_ends(&self, place: &dyn Place, environment: EnvironmentId) -> Result<()> {
        loop {
            let page = PageRequest { limit: MAXIMUM_LIMIT, after: None };
            let filter = ProcessFilter { unfinished: true, ..ProcessFilter::default() };
            let rows: Vec<Process> = self
                .store
                .read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::list(unit, environment, &filter, &page).await?) }))
                .await?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut ends = Vec::new();
            for process in rows {
                let exit = place.progress(environment, process.id).await?.and_then(|progress| progress.exit);
                ends.push((process.id, exit));
            }
            let now = self.context.now();
            self.store
                .write(move |unit| {
                    Box::pin(async move {
                        for (process, exit) in &ends {
                            match exit {
                                Some(exit) => processes::finish(unit, *process, exit).await?,
                                None => processes::fail(unit, *process, "the environment changed hands before it was started", now).await?,
                            };
                        }
                        Ok::<_, Error>(())
                    })
                })
                .await?;
        }
    }
}

/// What keeps two from carrying one barrier.
pub(super) fn lock_of(sandbox: SandboxId) -> String {
    format!("lease/{sandbox}")
}

pub(super) fn fencing(environment: &Environment) -> Error {
    Error::new(Code::LeaseFencing, format!("what the last holder of environment `{}` left is still being stopped", environment.name))
        .recoverable(true)
        .suggestion("try again in a moment, or wait for it with `stead lease acquire --wait 5m`; `stead lease list` shows how far it is")
}

fn unreachable(unsettled: &Unsettled, error: PlaceError) -> Error {
    let name = unsettled.environments.first().map(|environment| environment.name.clone()).unwrap_or_default();
    Error::new(Code::LeaseFencing, format!("what the last holder of environment `{name}` left cannot be stopped yet: {error}"))
        .recoverable(true)
        .suggestion(
            "nobody is let in before it is: look at what keeps it (`stead doctor`), or set `lease.unreachable: destroy` in the definition, which \
             has it ended by force",
        )
}
