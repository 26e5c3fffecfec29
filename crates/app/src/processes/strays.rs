//! A crash between a program's start and its row leaves a program that nobody would ever hear of. It is ended when it is seen twice.

use std::collections::HashSet;

use stead_domain::ids::ProcessId;
use stead_domain::signal::Signal;
use stead_domain::{Error, Result, Timestamp};
use stead_store::processes;

use crate::App;
use crate::place::PlaceError;
use crate::provider::Provider;

impl App {
    /// Ends what runs, has no row, and was seen before; gives what was seen for the first time. What was started before a restore may have
    /// had a row, and is left alone.
    pub(crate) async fn sweep_processes(
        &self,
        provider: &dyn Provider,
        seen: &HashSet<ProcessId>,
        restored_at: Option<Timestamp>,
    ) -> Result<HashSet<ProcessId>> {
        let mut strays = HashSet::new();
        let Some(place) = provider.place() else { return Ok(strays) };
        for (environment, id) in place.running().await? {
            if self.watches.has(id) || restored_at.is_some_and(|restored_at| id.made_at() <= restored_at) {
                continue;
            }
            let row = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::find_any(unit, id).await?) })).await?;
            if row.is_some() {
                continue;
            }
            if !seen.contains(&id) {
                strays.insert(id);
                continue;
            }
            tracing::warn!(process = %id, %environment, "ending what no record stands for");
            match place.signal(environment, id, None, Signal::KILL.number()).await {
                Ok(()) | Err(PlaceError::Over | PlaceError::NoProcess) => {
                    self.until_over(place, environment, id).await;
                    place.forget(environment, Some(id)).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(strays)
    }
}
