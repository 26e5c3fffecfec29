//! By name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ignore::WalkState;
use stead_domain::files::{FileEntry, FilePath, FileWord, FindOrder};

use super::{Globs, named, walk};
use crate::errand::entries::{BATCH, entry};
use crate::errand::voice::Voice;
use crate::tree::trouble::{At, Result};

/// Says what fits, in the order of the paths. Of more than the limit, those that were met first.
pub fn find(order: &FindOrder, voice: &mut Voice) -> Result<FileWord> {
    let start = &order.path;
    let globs = Globs::new(order.pattern.as_deref(), order.ignore_case)?;
    let found: Mutex<Vec<(FilePath, FileEntry)>> = Mutex::default();
    let truncated = AtomicBool::new(false);
    walk(start, order.all, |met| {
        if met.depth() == 0 || !(globs.is_empty() || globs.fit(start, met)) {
            return WalkState::Continue;
        }
        let (path, Ok(metadata)) = (named(start, met), met.path().symlink_metadata()) else { return WalkState::Continue };
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() as u64 >= order.limit {
            truncated.store(true, Ordering::Relaxed);
            return WalkState::Quit;
        }
        let entry = entry(&path, &metadata);
        found.push((path, entry));
        WalkState::Continue
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    let count = found.len() as u64;
    let mut entries = found.into_iter().map(|(_, entry)| entry).peekable();
    while entries.peek().is_some() {
        let batch: Vec<FileEntry> = entries.by_ref().take(BATCH).collect();
        voice.say(&FileWord::Entries { entries: batch }, &[]).at(start)?;
    }
    Ok(FileWord::Done { size: 0, more: truncated.into_inner(), count })
}
