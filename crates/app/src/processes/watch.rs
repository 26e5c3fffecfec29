//! One task per live process: it waits for the end and writes it down, so that rows become true when nobody asks.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stead_domain::ids::{HostId, ProcessId};
use stead_domain::process::{ExitCause, Process, ProcessExit, ProcessPurpose, ProcessStatus, ProcessUsage};
use stead_domain::{Error, Result};
use stead_store::{Unit, processes, sandboxes, tickets};

use crate::App;
use crate::place::{PlaceError, Progress};
use crate::processes::{Ground, Placed};

/// How long a place that failed, or a store, is left alone.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two looks at one that only printed something: its end is what counts here.
const PACE: Duration = Duration::from_millis(200);
/// Those that end within this are never written as running.
const SETTLED: Duration = Duration::from_secs(1);
/// How long a row may wait for the request that made it to be repeated, when a crash came between the row and the start.
const REPEATED: Duration = Duration::from_secs(30);

/// How a watcher came to its process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// It was started just now, by this server.
    Start,
    /// There is a row of it.
    Row,
}

/// The processes that have a watcher, each with its exit once that is known and not yet written.
#[derive(Default)]
pub(crate) struct Watches(Mutex<HashMap<ProcessId, Option<ProcessExit>>>);

impl Watches {
    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<ProcessId, Option<ProcessExit>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caller is the one to watch it.
    fn begin(&self, id: ProcessId) -> bool {
        let mut entries = self.entries();
        let new = !entries.contains_key(&id);
        entries.entry(id).or_default();
        new
    }

    fn end(&self, id: ProcessId) {
        self.entries().remove(&id);
    }

    pub(crate) fn has(&self, id: ProcessId) -> bool {
        self.entries().contains_key(&id)
    }

    /// Keeps what was said of the end until the row says it too.
    pub(crate) fn note(&self, id: ProcessId, exit: &ProcessExit) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.get_or_insert_with(|| exit.clone());
        }
    }

    pub(crate) fn exit_of(&self, id: ProcessId) -> Option<ProcessExit> {
        self.entries().get(&id).cloned().flatten()
    }
}

/// Some of the processes of a host that are not over, with who answers for them.
pub(crate) async fn placed_unfinished(unit: &mut Unit, host: HostId, after: Option<ProcessId>) -> Result<Vec<Placed>> {
    let mut found = Vec::new();
    for process in processes::unfinished(unit, host, after).await? {
        if let Some(sandbox) = sandboxes::find(unit, process.sandbox_id).await? {
            found.push(Placed { process, provider: sandbox.provider, host: sandbox.host_id });
        }
    }
    Ok(found)
}

impl App {
    /// Gives every unfinished process of this host a watcher. For a server that has just started.
    pub(crate) async fn watch_unfinished(&self) {
        let host = self.host;
        let mut after = None;
        loop {
            let page: Result<Vec<Placed>> =
                self.store.read(move |unit| Box::pin(async move { placed_unfinished(unit, host, after).await })).await;
            match page {
                Ok(page) => {
                    let Some(last) = page.last() else { return };
                    after = Some(last.process.id);
                    for placed in page {
                        match self.ground_of(&placed) {
                            Ok(ground) => self.watch(placed.process, ground, Since::Row),
                            Err(error) => tracing::warn!(process = %placed.process.id, %error, "it cannot be watched"),
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the unfinished processes could not be read");
                    if !self.pause(AGAIN).await {
                        return;
                    }
                }
            }
        }
    }

    /// Watches a process, unless somebody does already.
    pub(crate) fn watch(&self, process: Process, ground: Ground, since: Since) {
        if self.watches.begin(process.id) {
            let app = self.clone();
            self.tasks.spawn(async move {
                let (id, purpose) = (process.id, process.purpose);
                tokio::select! {
                    () = app.stopping.cancelled() => {}
                    () = app.watch_to_the_end(process, &ground, since) => {}
                }
                app.watches.end(id);
                if purpose == Some(ProcessPurpose::Setup) && !app.stopping.is_cancelled() {
                    app.conclude_left_setup(id).await;
                }
            });
        }
    }

    async fn watch_to_the_end(&self, process: Process, ground: &Ground, since: Since) {
        let Ok(place) = ground.place() else { return };
        let (id, environment) = (process.id, process.environment_id);
        let begun = tokio::time::Instant::now();
        let mut is_running = since == Since::Row && process.status == ProcessStatus::Running;
        let was_started = is_running || since == Since::Start;
        if since == Since::Start {
            // Most are over in a moment, and whoever started it waits for it with the place itself.
            tokio::time::sleep(PACE).await;
            // And has heard of its end, most likely.
            if let Some(exit) = self.watches.exit_of(id) {
                return self.write_end(id, exit).await;
            }
        }
        loop {
            let seen = match place.progress(environment, id).await {
                Ok(Some(Progress { exit: Some(exit), .. })) => return self.write_end(id, exit).await,
                Ok(Some(seen)) => seen,
                // The program was never started, and the request that asked for it may come once more.
                Ok(None) if !was_started && begun.elapsed() < REPEATED => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Ok(None) => return self.write_end(id, self.lost(&process)).await,
                // An error says nothing about the process.
                Err(error) => {
                    tracing::warn!(process = %id, %error, "its place cannot be asked; it is asked again");
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            let further = place.further(environment, id, &seen);
            let further = if is_running {
                further.await
            } else {
                match tokio::time::timeout(SETTLED, further).await {
                    Ok(further) => further,
                    Err(_) => {
                        is_running = self.write_running(id).await;
                        continue;
                    }
                }
            };
            match further {
                Ok(Progress { exit: Some(exit), .. }) => return self.write_end(id, exit).await,
                Ok(_) => tokio::time::sleep(PACE).await,
                // Whether there is a trace of it is said by `progress`.
                Err(PlaceError::NoProcess) => tokio::time::sleep(PACE).await,
                Err(error) => {
                    tracing::warn!(process = %id, %error, "it cannot be watched; it is tried again");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    fn lost(&self, process: &Process) -> ProcessExit {
        let now = self.context.now();
        ProcessExit {
            cause: ExitCause::Lost,
            code: None,
            signal: None,
            usage: ProcessUsage::default(),
            duration_ms: u64::try_from(now.since(process.created_at).as_millis()).unwrap_or(u64::MAX),
            ended_at: now,
            limits_hit: Vec::new(),
        }
    }

    async fn write_running(&self, id: ProcessId) -> bool {
        let written: Result<bool> =
            self.store.write(move |unit| Box::pin(async move { Ok(processes::set_running(unit, id).await?) })).await;
        written.is_ok()
    }

    /// Writes the end, however often it takes.
    async fn write_end(&self, id: ProcessId, exit: ProcessExit) {
        self.watches.note(id, &exit);
        while let Err(error) = self.finish_with_others(id, exit.clone()).await {
            tracing::warn!(process = %id, %error, "its end could not be written yet");
            tokio::time::sleep(AGAIN).await;
        }
    }

    pub(crate) async fn finish_process(&self, id: ProcessId, exit: ProcessExit) -> Result<bool> {
        let (finished, waited_for) = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let finished = processes::finish(unit, id, &exit).await?;
                    Ok::<_, Error>((finished, tickets::waited_for(unit, id).await?))
                })
            })
            .await?;
        self.look_after_behind(waited_for.into_iter().collect());
        Ok(finished)
    }
}
