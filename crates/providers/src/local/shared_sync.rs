//! One sync for everybody who waits for one: many creations at once share it, as they share a commit of the store.

use std::fs::File;
use std::io::Result;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

pub struct SharedSync {
    directory: Arc<File>,
    asked: AtomicU64,
    /// How many of those who asked are served.
    served: Mutex<u64>,
}

impl SharedSync {
    pub fn open(directory: &Path) -> Result<Self> {
        Ok(Self { directory: Arc::new(File::open(directory)?), asked: AtomicU64::new(0), served: Mutex::new(0) })
    }

    /// Returns when everything that was done in the directory before the call is on the disk.
    pub async fn sync(&self) -> Result<()> {
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut served = self.served.lock().await;
        if *served >= ticket {
            return Ok(());
        }
        // Whoever asked up to here has done its work already, and this sync covers it.
        let covered = self.asked.load(Ordering::SeqCst);
        let directory = Arc::clone(&self.directory);
        spawn_blocking(move || directory.sync_all()).await??;
        *served = covered;
        Ok(())
    }

    /// The same by who may block and has just done something there, unless somebody else is at it; whether it is done.
    pub fn sync_at_once(&self) -> Result<bool> {
        let Ok(mut served) = self.served.try_lock() else { return Ok(false) };
        let covered = self.asked.load(Ordering::SeqCst);
        self.directory.sync_all()?;
        *served = covered;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn everybody_is_served() {
        let directory = tempfile::TempDir::new().unwrap();
        let sync = Arc::new(SharedSync::open(directory.path()).unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let sync = Arc::clone(&sync);
            tasks.spawn(async move { sync.sync().await });
        }
        assert!(tasks.join_all().await.into_iter().all(|outcome| outcome.is_ok()));
        assert_eq!(*sync.served.lock().await, 200);
        assert!(sync.sync_at_once().unwrap());
        let busy = sync.served.lock().await;
        assert!(!sync.sync_at_once().unwrap(), "somebody else is at it");
        drop(busy);
        assert_eq!(*sync.served.lock().await, 200);
    }
}
