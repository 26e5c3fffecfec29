//! Who starts something in an environment passes its gate; who puts it to sleep or removes it shuts the gate first. So nothing is started
//! in a place that is being taken down.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use stead_domain::ids::EnvironmentId;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

#[derive(Default)]
pub(crate) struct Gates {
    entries: Mutex<HashMap<EnvironmentId, Weak<RwLock<()>>>>,
}

impl Gates {
    fn entry(&self, environment: EnvironmentId) -> Arc<RwLock<()>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = entries.get(&environment).and_then(Weak::upgrade) {
            return gate;
        }
        // What nobody holds any more is forgotten as the map grows.
        if entries.len().is_power_of_two() {
            entries.retain(|_, gate| gate.strong_count() > 0);
        }
        let gate = Arc::new(RwLock::new(()));
        entries.insert(environment, Arc::downgrade(&gate));
        gate
    }

    /// Many may pass at the same time.
    pub(crate) async fn pass(&self, environment: EnvironmentId) -> OwnedRwLockReadGuard<()> {
        self.entry(environment).read_owned().await
    }

    /// Waits for those who are passing, and lets nobody through until it is dropped.
    pub(crate) async fn shut(&self, environment: EnvironmentId) -> OwnedRwLockWriteGuard<()> {
        self.entry(environment).write_owned().await
    }
}
