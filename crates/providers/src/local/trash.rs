//! Where removed sandboxes lie until their files are gone, and the one thread that removes them.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::removal;

/// What could not be removed is tried again after this, if nobody asks before.
const AGAIN: Duration = Duration::from_secs(300);

pub struct Trash {
    path: PathBuf,
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    asked: Mutex<bool>,
    changed: Condvar,
    stopped: AtomicBool,
}

impl Trash {
    /// Starts with what a server left that was ended while it removed files.
    pub fn open(path: PathBuf) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (directory, seen) = (path.clone(), Arc::clone(&shared));
        let worker = std::thread::Builder::new().name("trash".to_owned()).spawn(move || seen.work(&directory))?;
        Ok(Self { path, shared, worker: Some(worker) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the trash emptied without anybody waiting for it.
    pub fn empty_behind(&self) {
        *self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for Trash {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Through the lock, so that the worker is not between its look at the flag and its sleep.
        self.empty_behind();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn work(&self, directory: &Path) {
        let mut known = 0;
        loop {
            let left = removal::empty(directory, &self.stopped);
            let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            // Once for as long as nothing changes: the same lines every few minutes help nobody.
            if let Some(cause) = left.cause.filter(|_| left.count != known) {
                tracing::warn!(trash = %directory.display(), entries = left.count, %cause, "not removed yet");
            }
            known = left.count;
            let unasked = |asked: &mut bool| !*asked;
            let mut asked = if left.count == 0 {
                self.changed.wait_while(asked, unasked).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.changed.wait_timeout_while(asked, AGAIN, unasked).unwrap_or_else(PoisonError::into_inner).0
            };
            *asked = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_worker_removes_what_was_left_and_what_comes_and_ends_with_its_owner() {
        let directory = tempfile::TempDir::new().unwrap();
        let gone = || {
            let begun = Instant::now();
            while fs::read_dir(directory.path()).unwrap().next().is_some() {
                assert!(begun.elapsed() < Duration::from_secs(20), "still there");
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        fs::create_dir_all(directory.path().join("one/two")).unwrap();
        let trash = Trash::open(directory.path().to_owned()).unwrap();
        gone();
        for _ in 0..50 {
            fs::create_dir_all(directory.path().join("three/four")).unwrap();
            trash.empty_behind();
            gone();
        }
        let shared = Arc::downgrade(&trash.shared);
        drop(trash);
        assert!(shared.upgrade().is_none());
    }
}
