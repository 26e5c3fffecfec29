//! Who calls and what they may do: credentials, projects, members, keys.

pub mod access;
mod api_keys;
mod members;
mod projects;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stead_domain::Timestamp;
use stead_domain::ids::ApiKeyId;

pub use api_keys::NewApiKey;
pub use members::NewMember;
pub use projects::{NewProject, ProjectEdit};

/// When each key was last noted as used. The record is at most a minute behind: a write for every request would cost more than it tells.
#[derive(Default)]
pub(crate) struct KeyUses(Mutex<HashMap<ApiKeyId, Timestamp>>);

impl KeyUses {
    const EVERY: Duration = Duration::from_secs(60);

    /// Whether this use is worth a note.
    fn is_due(&self, key: ApiKeyId, now: Timestamp) -> bool {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match uses.get(&key) {
            Some(last) if now.since(*last) < Self::EVERY => false,
            _ => {
                uses.insert(key, now);
                true
            }
        }
    }
}
