//! Ends are written down together: nobody waits for one of them, and on the disk each commit holds up those that somebody does wait for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stead_domain::ids::{ProcessId, SandboxId};
use stead_domain::process::ProcessExit;
use stead_domain::{Error, Result};
use stead_store::{processes, tickets};
use tokio::sync::oneshot;

use crate::App;

/// How long the first one waits for others.
const GATHER: Duration = Duration::from_millis(100);

/// Those that are to be written with the next commit.
#[derive(Default)]
pub(crate) struct Ends(Mutex<Vec<End>>);

struct End {
    process: ProcessId,
    exit: ProcessExit,
    /// Or why it could not be.
    written: oneshot::Sender<std::result::Result<(), String>>,
}

impl Ends {
    /// Whether it is the first.
    fn push(&self, end: End) -> bool {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.push(end);
        ends.len() == 1
    }

    fn take(&self) -> Vec<End> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl App {
    /// Returns when it is written, which takes a moment. For who has nobody waiting.
    pub(crate) async fn finish_with_others(&self, process: ProcessId, exit: ProcessExit) -> Result<()> {
        let (written, outcome) = oneshot::channel();
        if self.ends.push(End { process, exit, written }) {
            let app = self.clone();
            self.tasks.spawn(async move {
                app.pause(GATHER).await;
                app.write_ends().await;
            });
        }
        outcome.await.map_err(Error::internal)?.map_err(Error::internal)
    }

    async fn write_ends(&self) {
        let ends = self.ends.take();
        let rows: Vec<(ProcessId, ProcessExit)> = ends.iter().map(|end| (end.process, end.exit.clone())).collect();
        let outcome: Result<Vec<SandboxId>> = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let mut waited_for = Vec::new();
                    for (process, exit) in &rows {
                        processes::finish(unit, *process, exit).await?;
                        waited_for.extend(tickets::waited_for(unit, *process).await?);
                    }
                    Ok(waited_for)
                })
            })
            .await;
        let outcome = outcome
            .map(|waited_for| self.look_after_behind(waited_for))
            .map_err(|error| error.internal_cause().unwrap_or(error.message()).to_owned());
        for end in ends {
            // One that the server's end does not wait for any more.
            let _ = end.written.send(outcome.clone());
        }
    }
}
