//! One thing at a time per key, within this process. Between processes the store's row locks and the fence decide.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

#[derive(Default)]
pub struct KeyedLocks {
    entries: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl KeyedLocks {
    fn entry(&self, key: &str) -> Arc<AsyncMutex<()>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = entries.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        // What nobody holds any more is forgotten as the map grows.
        if entries.len().is_power_of_two() {
            entries.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(AsyncMutex::new(()));
        entries.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }

    pub async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        self.entry(key).lock_owned().await
    }

    /// The lock if it is free.
    pub fn try_lock(&self, key: &str) -> Option<OwnedMutexGuard<()>> {
        self.entry(key).try_lock_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_per_key_and_nothing_is_kept() {
        let locks = KeyedLocks::default();
        let held = locks.lock("a").await;
        assert!(locks.try_lock("a").is_none());
        assert!(locks.try_lock("b").is_some());
        drop(held);
        assert!(locks.try_lock("a").is_some());
        for number in 0..1000 {
            drop(locks.lock(&number.to_string()).await);
        }
        assert!(locks.entries.lock().unwrap().len() < 600);
    }
}
