//! What callers are doing in a sandbox at this moment, on this server: a start whose row is not written, a file that is being written. Records
//! do not know of it yet, and whoever hands the sandbox over has to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use stead_domain::ids::{LeaseId, PrincipalId, SandboxId};

/// Whose doing it is, as far as leases tell callers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Principal(PrincipalId),
    Lease(LeaseId),
}

#[derive(Debug, Default)]
pub(crate) struct Underway(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    doing: HashMap<SandboxId, Vec<Identity>>,
    /// How much had been begun anywhere when the last was begun in each.
    begun: HashMap<SandboxId, u64>,
    total: u64,
    /// The same of those that were forgotten: as if something had been begun in all of them then.
    floor: u64,
    /// Where somebody decides, and what it decided is not there for everybody yet.
    deciding: HashMap<SandboxId, u64>,
}

/// So many sandboxes are counted apart. Whoever is forgotten only counts as restless.
const MOST: usize = 100_000;

/// What the place said of what runs in a sandbox: nothing did, when so much had been begun there. Of what was not asked for, something does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Quiet {
    #[default]
    Unknown,
    When(u64),
    /// It was just emptied, and nobody is let in.
    Emptied,
}

impl Underway {
    /// From before the right to it is looked at until it is over.
    pub fn begin(self: &Arc<Self>, sandbox: SandboxId, identity: Identity) -> Doing {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.doing.entry(sandbox).or_default().push(identity);
        if counted.begun.len() >= MOST {
            counted.begun.clear();
            counted.floor = counted.total;
        }
        counted.total += 1;
        let total = counted.total;
        counted.begun.insert(sandbox, total);
        drop(counted);
        Doing { underway: Arc::clone(self), sandbox, identity }
    }

    /// A number that grows whenever something is begun there.
    pub fn begun(&self, sandbox: SandboxId) -> u64 {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.begun.get(&sandbox).copied().unwrap_or(counted.floor)
    }

    /// From before a decision asks what is being done until what it decided is there for everybody. Who begins something meanwhile reads what is
    /// no longer true, and has to have it decided as well: of a decision and of something that is begun, one always knows of the other.
    pub fn decide(self: &Arc<Self>, sandbox: SandboxId) -> Deciding {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).deciding.entry(sandbox).or_default() += 1;
        Deciding { underway: Arc::clone(self), sandbox }
    }

    pub fn is_being_decided(&self, sandbox: SandboxId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).deciding.contains_key(&sandbox)
    }

    /// Whether what the place said is still true: nothing was begun since then.
    pub fn is_quiet(&self, sandbox: SandboxId, quiet: Quiet) -> bool {
        match quiet {
            Quiet::Unknown => false,
            Quiet::When(begun) => self.begun(sandbox) == begun,
            Quiet::Emptied => true,
        }
    }

    /// Whether somebody is doing something there; of those with this identity nobody is counted.
    pub fn is_busy(&self, sandbox: SandboxId, but_for: Option<Identity>) -> bool {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.doing.get(&sandbox).is_some_and(|doing| doing.iter().any(|identity| Some(*identity) != but_for))
    }
}

/// Something that is being done.
#[derive(Debug)]
pub(crate) struct Doing {
    underway: Arc<Underway>,
    sandbox: SandboxId,
    identity: Identity,
}

impl Drop for Doing {
    fn drop(&mut self) {
        let mut counted = self.underway.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(doing) = counted.doing.get_mut(&self.sandbox) {
            if let Some(at) = doing.iter().position(|identity| *identity == self.identity) {
                doing.swap_remove(at);
            }
            if doing.is_empty() {
                counted.doing.remove(&self.sandbox);
            }
        }
    }
}

/// A decision that not everybody sees yet.
pub(crate) struct Deciding {
    underway: Arc<Underway>,
    sandbox: SandboxId,
}

impl Drop for Deciding {
    fn drop(&mut self) {
        let mut counted = self.underway.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counted.deciding.get_mut(&self.sandbox) {
            *count -= 1;
            if *count == 0 {
                counted.deciding.remove(&self.sandbox);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_counts_but_those_who_are_left_out() {
        let underway = Arc::new(Underway::default());
        let sandbox = SandboxId::from_bytes([1; 16]);
        let (ann, ben) = (Identity::Principal(PrincipalId::from_bytes([2; 16])), Identity::Lease(LeaseId::from_bytes([3; 16])));
        assert!(!underway.is_busy(sandbox, None));
        let first = underway.begin(sandbox, ann);
        let second = underway.begin(sandbox, ann);
        assert!(underway.is_busy(sandbox, None) && underway.is_busy(sandbox, Some(ben)) && !underway.is_busy(sandbox, Some(ann)));
        drop(first);
        assert!(underway.is_busy(sandbox, None));
        drop(second);
        assert!(!underway.is_busy(sandbox, None) && underway.0.lock().unwrap().doing.is_empty());
        let quiet = Quiet::When(underway.begun(sandbox));
        assert!(underway.is_quiet(sandbox, quiet) && !underway.is_quiet(sandbox, Quiet::Unknown));
        drop(underway.begin(sandbox, ben));
        assert!(!underway.is_quiet(sandbox, quiet), "it may have left something");
        // Also of what was forgotten.
        let quiet = Quiet::When(underway.begun(sandbox));
        for other in 0..MOST as u64 {
            let mut id = [9; 16];
            id[..8].copy_from_slice(&other.to_be_bytes());
            drop(underway.begin(SandboxId::from_bytes(id), ann));
        }
        assert!(!underway.is_quiet(sandbox, quiet));
        let (one, other) = (underway.decide(sandbox), underway.decide(sandbox));
        drop(one);
        assert!(underway.is_being_decided(sandbox));
        drop(other);
        assert!(!underway.is_being_decided(sandbox));
    }
}
