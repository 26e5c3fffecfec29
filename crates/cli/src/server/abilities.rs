//! Finds out what this host can do while the server starts, without making anybody wait who need not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stead_providers::local::{Abilities, Known, Tell};
use tokio::task::spawn_blocking;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::host::{self, Report};

/// Between one trial that failed and the next.
const AGAIN: Duration = Duration::from_secs(30);

/// The trial under way. What is known grows in [`Known`].
pub struct Finding {
    tasks: TaskTracker,
    /// A server that could not start lets go of this without a word, and the trial is not to complain of its end then.
    stop: DropGuard,
}

/// Begins. Until the trial has answered, what worked the last time is taken to work.
pub fn find_out(data_dir: &Path) -> (Known, Finding) {
    let (tell, known) = Known::not_yet();
    // What was missing then may have been mended since: whoever needs it waits for the trial.
    if let Some(abilities) = host::recall(data_dir).map(|report| report.abilities()).filter(|found| found.obstacles().next().is_none()) {
        say(&tell, abilities);
    }
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let (stopped, data_dir) = (stop.clone(), data_dir.to_owned());
    tasks.spawn(async move { stopped.run_until_cancelled(until_known(data_dir, tell)).await });
    tasks.close();
    (known, Finding { tasks, stop: stop.drop_guard() })
}

impl Finding {
    pub async fn end(self) {
        drop(self.stop);
        self.tasks.wait().await;
    }
}

async fn until_known(data_dir: PathBuf, tell: Tell) {
    loop {
        match tried(&data_dir).await {
            Ok(report) => {
                let abilities = report.abilities();
                for (what, why) in abilities.obstacles() {
                    tracing::warn!(what, why, "this host cannot do it; `stead doctor` says more");
                }
                return say(&tell, abilities);
            }
            Err(error) => {
                tracing::warn!(error, "what this host can do could not be found out; once more in a while");
                // What was found before is as good as it was; with nothing, nothing is promised.
                if tell.borrow().is_none() {
                    say(&tell, Abilities::none(&error));
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

async fn tried(data_dir: &Path) -> Result<Report, String> {
    let data_dir = data_dir.to_owned();
    let trial = spawn_blocking(move || host::ask(&data_dir).inspect(|report| host::remember(&data_dir, report)));
    trial.await.map_err(|error| error.to_string())?
}

fn say(tell: &Tell, abilities: Abilities) {
    tell.send_replace(Some(Arc::new(abilities)));
}
