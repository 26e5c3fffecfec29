//! A bound that the filesystem holds. Whoever would pass it is refused (`EDQUOT`, on XFS `ENOSPC`) and goes on; only what became of that is told here.
//!
//! What belongs to a sandbox is bounded together, and several environments may share one. While they are awake each holds a lock on its
//! directory: who is alone sets its own bound, and who is not can only lower the one that is there.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, flock};
use stead_sandbox::quota::{self, BLOCK, Bound};

use crate::blueprint::{Blueprint, Quota};

/// What it takes to make a place in a full environment, so that files can still be removed in it: the kernel's own directories beside layers.
const SLACK: Bound = Bound { bytes: 1 << 20, files: 64 };
const NONE: Bound = Bound { bytes: 0, files: 0 };

pub struct Held {
    project: u32,
    /// On the filesystem that holds it, locked.
    directory: OwnedFd,
    bytes: Option<u64>,
}

impl Held {
    /// Bounds everything that belongs to the blueprint's project, with a little more for as long as the place is made; none where no quota
    /// holds it. Who is killed before [`Held::settle`] leaves that little until somebody wakes the next time.
    pub fn begin(blueprint: &Blueprint) -> Option<io::Result<Self>> {
        let Quota { directory, project } = blueprint.quota.as_ref()?;
        let begun = quota::open(directory).and_then(|directory| {
            let mut held = Self { project: *project, directory, bytes: None };
            let is_alone = held.choose(blueprint.limits.disk_bytes)?;
            held.hold(if is_alone { SLACK } else { NONE })?;
            Ok(held)
        });
        Some(begun)
    }

    /// The place is made, or will not be.
    pub fn settle(&self) -> io::Result<()> {
        self.hold(NONE)?;
        Ok(flock(&self.directory, FlockOperation::LockShared)?)
    }

    pub fn hold_to(&mut self, limit: Option<u64>) -> io::Result<()> {
        self.choose(limit)?;
        self.settle()
    }

    /// Whether one more block, or one more file, would be refused.
    pub fn is_full(&self) -> bool {
        quota::usage(&self.directory, self.project).is_ok_and(|usage| !usage.has_room())
    }

    /// Sets what is to be held, and says whether nobody else is awake. Whoever asks for the lock gives up the one that it has, so another
    /// may have it in between: then that one was alone, and is not any more.
    fn choose(&mut self, limit: Option<u64>) -> io::Result<bool> {
        if flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.bytes = limit;
            return Ok(true);
        }
        flock(&self.directory, FlockOperation::LockShared)?;
        let there = Some(quota::usage(&self.directory, self.project)?.bound.bytes).filter(|bytes| *bytes > 0);
        self.bytes = limit.into_iter().chain(there).min();
        Ok(false)
    }

    fn hold(&self, slack: Bound) -> io::Result<()> {
        let bound = self.bytes.map_or(NONE, |bytes| Bound {
            bytes: bytes.max(BLOCK).saturating_add(slack.bytes),
            // As many files as there are blocks: empty ones, links and directories take up something too.
            files: (bytes / BLOCK).max(1).saturating_add(slack.files),
        });
        quota::hold(&self.directory, self.project, bound)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // By a word of its own: other processes may have copies of the descriptor for a moment longer.
        let _ = flock(&self.directory, FlockOperation::Unlock);
    }
}
