//! Empty sandboxes that were made before anybody needs them, and the one thread that makes them: the directories of a sandbox take as long as
//! the filesystem has to look for room for them, and a name takes no time at all.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::tree;

/// More are made when so few are left, until there are so many.
const FEW: usize = 4;
const ENOUGH: usize = 16;
/// Whoever took the last one is about to run something in it, and is not to be disturbed.
const LATER: Duration = Duration::from_millis(50);

pub struct Spare {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

struct Shared {
    directory: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<PathBuf>,
    asked: bool,
    stopped: bool,
}

impl Spare {
    /// Goes on with those that an earlier server left. None are made before the first is asked for: many a server never makes one.
    pub fn open(directory: PathBuf) -> Result<Self> {
        let shared = Arc::new(Shared { directory, state: Mutex::default(), changed: Condvar::new() });
        let seen = Arc::clone(&shared);
        let worker = std::thread::Builder::new().name("spare".to_owned()).spawn(move || seen.work())?;
        Ok(Self { shared, worker: Some(worker) })
    }

    /// Gives one its place; false when there is none, and then somebody has to make it.
    pub fn take(&self, to: &Path) -> bool {
        let taken = {
            let mut state = self.shared.state();
            let taken = state.ready.pop_front();
            if state.ready.len() <= FEW && !state.asked {
                state.asked = true;
                self.shared.changed.notify_one();
            }
            taken
        };
        // Whatever it is refused for, what is not there is made as it ever was.
        taken.is_some_and(|from| tree::is_fresh(&from) && renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).is_ok())
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.changed.notify_one();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut number = self.find().unwrap_or_else(|error| {
            tracing::warn!(directory = %self.directory.display(), %error, "sandboxes that were made ready before are not used");
            // No name that one of them may have.
            u64::from(std::process::id()) << 32
        });
        loop {
            let state = self.changed.wait_while(self.state(), |state| !state.asked && !state.stopped);
            let waited = self.changed.wait_timeout_while(state.unwrap_or_else(PoisonError::into_inner), LATER, |state| !state.stopped);
            drop(waited);
            loop {
                let mut state = self.state();
                if state.stopped {
                    return;
                }
                if state.ready.len() >= ENOUGH {
                    state.asked = false;
                    break;
                }
                drop(state);
                number += 1;
                let path = self.directory.join(number.to_string());
                if let Err(error) = make(&path) {
                    tracing::debug!(path = %path.display(), %error, "no sandbox could be made ready");
                    self.state().asked = false;
                    break;
                }
                self.state().ready.push_back(path);
            }
        }
    }

    /// Those that were left, and the highest number among them.
    fn find(&self) -> Result<u64> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return fs::create_dir_all(&self.directory).map(|()| 0),
            outcome => outcome?,
        };
        let mut highest = 0;
        for entry in entries {
            let entry = entry?;
            if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()) {
                highest = highest.max(number);
                // One that was cut off is finished.
                make(&entry.path())?;
                self.state().ready.push_back(entry.path());
            }
        }
        Ok(highest)
    }
}

/// Makes one, and has all of it but its name on the disk.
fn make(path: &Path) -> Result<()> {
    tree::create(path)?;
    tree::parts(path).chain([path.to_owned()]).try_for_each(|directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(what: impl Fn() -> bool) {
        let limit = std::time::Instant::now() + Duration::from_secs(60);
        while !what() {
            assert!(std::time::Instant::now() < limit, "it never comes");
            std::thread::yield_now();
        }
    }

    #[test]
    fn they_are_made_when_the_first_was_asked_for_and_found_again() {
        let directory = tempfile::TempDir::new().unwrap();
        let (spares, place) = (directory.path().join("spare"), |name: &str| directory.path().join(name));
        let spare = Spare::open(spares.clone()).unwrap();
        assert!(!spare.take(&place("first")) && !place("first").exists());
        until(|| spare.shared.state().ready.len() == ENOUGH);
        assert!(spare.take(&place("second")) && tree::is_whole(&place("second")).unwrap());
        fs::write(place("second/workspace/file"), "kept").unwrap();
        assert!(!spare.take(&place("second")), "nothing takes the place of another");
        assert_eq!(fs::read_to_string(place("second/workspace/file")).unwrap(), "kept");
        // Somebody put something into the next one, and a link in place of the one after it.
        let next: Vec<_> = spare.shared.state().ready.iter().take(2).cloned().collect();
        fs::write(next[0].join("runtime/planted"), "").unwrap();
        fs::rename(&next[1], place("aside")).unwrap();
        std::os::unix::fs::symlink(place("second"), &next[1]).unwrap();
        assert!(!spare.take(&place("third")) && !spare.take(&place("third")) && !place("third").exists());
        fs::remove_dir_all(&next[0]).unwrap();
        fs::remove_file(&next[1]).unwrap();
        drop(spare);
        fs::remove_dir(fs::read_dir(&spares).unwrap().next().unwrap().unwrap().path().join("runtime")).unwrap();
        let again = Spare::open(spares).unwrap();
        until(|| again.shared.state().ready.len() >= ENOUGH - 4);
        for number in 0..ENOUGH - 4 {
            let place = place(&number.to_string());
            assert!(again.take(&place) && tree::is_whole(&place).unwrap());
        }
    }
}
