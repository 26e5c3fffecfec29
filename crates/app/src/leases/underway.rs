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
pub(crate) struct Underway(Mutex<HashMap<SandboxId, Vec<Identity>>>);

impl Underway {
    /// From before the right to it is looked at until it is over.
    pub fn begin(self: &Arc<Self>, sandbox: SandboxId, identity: Identity) -> Doing {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(sandbox).or_default().push(identity);
        Doing { underway: Arc::clone(self), sandbox, identity }
    }

    /// Whether somebody is doing something there; of those with this identity nobody is counted.
    pub fn is_busy(&self, sandbox: SandboxId, but_for: Option<Identity>) -> bool {
        let doing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        doing.get(&sandbox).is_some_and(|doing| doing.iter().any(|identity| Some(*identity) != but_for))
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
        let mut all = self.underway.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(doing) = all.get_mut(&self.sandbox) {
            if let Some(at) = doing.iter().position(|identity| *identity == self.identity) {
                doing.swap_remove(at);
            }
            if doing.is_empty() {
                all.remove(&self.sandbox);
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
        assert!(!underway.is_busy(sandbox, None) && underway.0.lock().unwrap().is_empty());
    }
}
