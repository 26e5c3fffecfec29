//! What an environment may keep of output. Beyond it the output of the processes that began first goes, once they are over; their records
//! stay, and say how they ended.

use std::collections::BTreeMap;

use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::{Error, Result};
use stead_store::processes;

use crate::App;

impl App {
    /// Holds every environment of this host to the bound, and tells of how many processes the output went.
    pub async fn bound_output(&self) -> Result<u64> {
        let mut count = 0;
        for provider in self.providers.all() {
            let Some(place) = provider.place() else { continue };
            let mut all: BTreeMap<EnvironmentId, Vec<(ProcessId, u64)>> = BTreeMap::new();
            for (environment, process, size) in place.stored_output().await? {
                all.entry(environment).or_default().push((process, size));
            }
            for (environment, mut stored) in all {
                let mut total: u64 = stored.iter().map(|(_, size)| size).sum();
                if total <= self.settings.retention.log_bytes {
                    continue;
                }
                // Ids begin with the time that they were made.
                stored.sort();
                for (process, size) in stored {
                    if total <= self.settings.retention.log_bytes || self.stopping.is_cancelled() {
                        break;
                    }
                    // One that was started a moment ago may have no row yet.
                    if self.watches.has(process) || !self.is_over(process).await? {
                        continue;
                    }
                    place.forget(environment, Some(process)).await?;
                    total = total.saturating_sub(size);
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    async fn is_over(&self, id: ProcessId) -> Result<bool> {
        let row = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::find_any(unit, id).await?) })).await?;
        Ok(row.is_some_and(|process| process.status.is_over()))
    }
}
