//! Tokens that are in use: each until five minutes before its end, for as long as somebody holds an environment that has it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stead_domain::ids::{EnvironmentId, LeaseId, ProjectId};
use stead_domain::secret::SecretValue;
use stead_domain::{Context, Error, Result};

use super::host::{GitFailure, GitHost, InstallationToken, TokenRequest};

/// A token that ends within this is not given out any more.
const TOO_LATE: Duration = Duration::from_secs(300);
/// So many are remembered at a time. Past it the one that ends first is forgotten: it ends by itself.
const MOST: usize = 1024;

/// Nothing is shared between projects, also not where they name the same repositories.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    project: ProjectId,
    wanted: TokenRequest,
}

/// Who has a token: an environment, under a lease and its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub environment: EnvironmentId,
    pub lease: Option<LeaseId>,
    pub fence: u64,
}

#[derive(Debug)]
struct Held {
    token: InstallationToken,
    /// What it was before, which processes may still use for the minutes that it has.
    earlier: Vec<SecretValue>,
    holders: BTreeSet<Holder>,
}

/// One key's turn: its lock is held while a token is asked for, so that it is asked for once, also when that fails.
#[derive(Debug, Default)]
struct Slot {
    turns: AtomicU64,
    failed: tokio::sync::Mutex<Option<GitFailure>>,
}

#[derive(Debug, Default)]
struct Known {
    held: HashMap<Key, Held>,
    slots: HashMap<Key, Arc<Slot>>,
}

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Mutex<Known>);

impl Tokens {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for these repositories: the one that is there, or a new one.
    pub async fn get(
        &self,
        host: &dyn GitHost,
        context: &Context,
        project: ProjectId,
        wanted: &TokenRequest,
        holder: Holder,
    ) -> Result<InstallationToken> {
        if wanted.repositories.is_empty() {
            // Without a list the host gives a token for everything that the installation has.
            return Err(Error::internal("a token was asked for without a repository"));
        }
        let mut wanted = wanted.clone();
        wanted.repositories.iter_mut().for_each(|name| name.make_ascii_lowercase());
        wanted.repositories.sort();
        wanted.repositories.dedup();
        let key = Key { project, wanted };
        let slot = Arc::clone(self.known().slots.entry(key.clone()).or_default());
        let turn = slot.turns.load(Ordering::Acquire);
        let mut failed = slot.failed.lock().await;
        let outcome = match (self.take_up(context, &key, holder), &*failed) {
            (Some(token), _) => Ok(token),
            // Whoever was before us asked the same while we waited.
            (None, Some(failure)) if slot.turns.load(Ordering::Acquire) != turn => Err(failure.clone()),
            (None, _) => {
                let minted = host.mint(&key.wanted).await;
                slot.turns.fetch_add(1, Ordering::AcqRel);
                *failed = minted.as_ref().err().cloned();
                if let Ok(token) = &minted {
                    self.keep(&key, token, holder);
                }
                minted
            }
        };
        drop(failed);
        // Two have it while nobody else waits: the map's and ours.
        let mut known = self.known();
        if Arc::strong_count(&slot) <= 2 {
            known.slots.remove(&key);
        }
        drop(known);
        outcome.map_err(|failure: GitFailure| failure.of_installation(key.wanted.installation))
    }

    fn take_up(&self, context: &Context, key: &Key, holder: Holder) -> Option<InstallationToken> {
        let mut known = self.known();
        let held = known.held.get_mut(key)?;
        if held.token.expires_at.minus(TOO_LATE) <= context.now() {
            return None;
        }
        held.holders.insert(holder);
        Some(held.token.clone())
    }

    fn keep(&self, key: &Key, token: &InstallationToken, holder: Holder) {
        let mut known = self.known();
        match known.held.get_mut(key) {
            Some(held) => {
                let before = std::mem::replace(&mut held.token, token.clone());
                held.earlier = vec![before.value];
                held.holders.insert(holder);
            }
            None => {
                if known.held.len() >= MOST
                    && let Some(first) = known.held.iter().min_by_key(|(_, held)| held.token.expires_at).map(|(key, _)| key.clone())
                {
                    known.held.remove(&first);
                }
                known.held.insert(key.clone(), Held { token: token.clone(), earlier: Vec::new(), holders: BTreeSet::from([holder]) });
            }
        }
    }

    /// Somebody has let go. The tokens that nobody has any more, to be revoked.
    pub fn let_go(&self, gone: impl Fn(&Holder) -> bool) -> Vec<SecretValue> {
        let mut known = self.known();
        let mut left = Vec::new();
        known.held.retain(|_, held| {
            held.holders.retain(|holder| !gone(holder));
            if held.holders.is_empty() {
                left.push(held.token.value.clone());
                left.append(&mut held.earlier);
            }
            !held.holders.is_empty()
        });
        left
    }

    /// What runs goes on under another lease, with the tokens that it has.
    pub fn hand_over(&self, from: LeaseId, to: LeaseId) {
        for held in self.known().held.values_mut() {
            let moved: Vec<Holder> = held.holders.iter().filter(|holder| holder.lease == Some(from)).copied().collect();
            held.holders.extend(moved.into_iter().map(|holder| Holder { lease: Some(to), ..holder }));
        }
    }

    /// The leases under which tokens are held.
    pub fn leases(&self) -> BTreeSet<LeaseId> {
        self.known().held.values().flat_map(|held| held.holders.iter().filter_map(|holder| holder.lease)).collect()
    }

    /// Those that have ended are no use to anybody.
    pub fn forget_expired(&self, context: &Context) {
        let now = context.now();
        self.known().held.retain(|_, held| held.token.expires_at > now);
    }

    pub fn is_empty(&self) -> bool {
        self.known().held.is_empty()
    }
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
