//! Who waits for news of a lease. Each is woken by news of its own alone, so that a release wakes one and not all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use stead_domain::ids::LeaseId;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<HashMap<LeaseId, Weak<Notify>>>);

impl Waiters {
    /// Is notified when something happens to the lease. Whoever asks before looking misses nothing.
    pub fn of(&self, lease: LeaseId) -> Arc<Notify> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = all.get(&lease).and_then(Weak::upgrade) {
            return notify;
        }
        if all.len().is_power_of_two() {
            all.retain(|_, notify| notify.strong_count() > 0);
        }
        let notify = Arc::new(Notify::new());
        all.insert(lease, Arc::downgrade(&notify));
        notify
    }

    pub fn tell(&self, lease: LeaseId) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = all.get(&lease).and_then(Weak::upgrade) {
            notify.notify_waiters();
        }
    }
}
