//! Waiting for an end.

use std::time::Duration;

use stead_domain::Result;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::{Process, ProcessExit};
use tokio::time::{Instant, timeout_at};

use crate::place::{Place, PlaceError, Progress};
use crate::processes::read::ended;
use crate::{App, Entered};

/// How often a row is looked at whose place is another host's.
const LOOK: Duration = Duration::from_millis(500);
/// How long a process that was killed may take to be gone.
const GOING: Duration = Duration::from_secs(10);

impl App {
    /// The process when it is over, or as it is when the time is.
    pub async fn wait_for_process(&self, entered: &Entered, environment: EnvironmentId, id: ProcessId, limit: Duration) -> Result<Process> {
        let deadline = Instant::now() + limit;
        loop {
            let placed = self.placed(entered, environment, id).await?;
            let Ok(ground) = self.ground_of(&placed) else {
                if placed.process.status.is_over() || Instant::now() + LOOK > deadline {
                    return Ok(placed.process);
                }
                tokio::time::sleep(LOOK).await;
                continue;
            };
            let place = ground.place()?;
            let process = self.merged(placed.process, place).await;
            if process.status.is_over() || Instant::now() >= deadline {
                return Ok(process);
            }
            match timeout_at(deadline, self.exit_at(place, environment, id)).await {
                Err(_) => return Ok(process),
                Ok(Ok(Some(exit))) => return Ok(ended(process, exit)),
                // It is not there yet, or no more: its row says which.
                Ok(Ok(None)) => tokio::time::sleep(LOOK.min(deadline.saturating_duration_since(Instant::now()))).await,
                Ok(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// Waits for the exit at the place; none when it knows nothing of the process.
    pub(crate) async fn exit_at(
        &self,
        place: &dyn Place,
        environment: EnvironmentId,
        id: ProcessId,
    ) -> Result<Option<ProcessExit>, PlaceError> {
        let Some(seen) = place.progress(environment, id).await? else { return Ok(None) };
        Ok(self.exit_after(place, environment, id, seen).await?.and_then(|progress| progress.exit))
    }

    /// The same, from what was seen last, and with how far it had come by then.
    pub(crate) async fn exit_after(
        &self,
        place: &dyn Place,
        environment: EnvironmentId,
        id: ProcessId,
        mut seen: Progress,
    ) -> Result<Option<Progress>, PlaceError> {
        loop {
            if let Some(exit) = &seen.exit {
                self.watches.note(id, exit);
                return Ok(Some(seen));
            }
            seen = match place.further(environment, id, &seen).await {
                Err(PlaceError::NoProcess) => return Ok(None),
                further => further?,
            };
        }
    }

    /// Gives one that was killed a moment to be gone, and tells how it ended.
    pub(crate) async fn until_over(&self, place: &dyn Place, environment: EnvironmentId, id: ProcessId) -> Option<ProcessExit> {
        tokio::time::timeout(GOING, self.exit_at(place, environment, id)).await.ok()?.ok()?
    }
}
