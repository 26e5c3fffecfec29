//! What is sealed is brought to the disk: a few files each by itself, many by one sync of the filesystem, which also waits for what is not ours.

use std::fs::{self, File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Up to so many, each by itself is faster and waits for nobody else's writes.
const FEW: usize = 200;
const THREADS: usize = 8;

/// What the kernel calls the time since this host was started.
pub fn boot() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Returns when everything below the layers is on the disk, and their names in `above` too.
pub fn bring_to_disk(layers: &[PathBuf], above: &[&Path]) -> Result<()> {
    let mut found = Vec::new();
    let few = layers.iter().all(|layer| collect(layer, &mut found));
    if !few || !sync_each(&found)? {
        let directory = File::open(above.first().ok_or(std::io::ErrorKind::InvalidInput)?)?;
        return Ok(rustix::fs::syncfs(&directory)?);
    }
    above.iter().try_for_each(|directory| File::open(directory)?.sync_all())
}

/// Everything in a tree that nobody changes; false when it is more than a few.
fn collect(path: &Path, found: &mut Vec<PathBuf>) -> bool {
    let mut next = vec![path.to_owned()];
    while let Some(directory) = next.pop() {
        // What cannot be read cannot be synced by itself.
        let Ok(entries) = fs::read_dir(&directory) else { return false };
        found.push(directory);
        for entry in entries {
            let Ok((entry, kind)) = entry.and_then(|entry| entry.file_type().map(|kind| (entry, kind))) else { return false };
            if kind.is_dir() {
                next.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
            if found.len() + next.len() > FEW {
                return false;
            }
        }
    }
    true
}

/// False when one of them cannot be opened.
fn sync_each(paths: &[PathBuf]) -> Result<bool> {
    let (at, outcome) = (AtomicUsize::new(0), Mutex::new(Ok(true)));
    let work = || {
        while let Some(path) = paths.get(at.fetch_add(1, Ordering::Relaxed)) {
            let told = match OpenOptions::new().read(true).custom_flags(NO_LINK_NO_WAIT).open(path) {
                Ok(file) => file.sync_all().map(|()| true),
                Err(_) => Ok(false),
            };
            if !matches!(told, Ok(true)) {
                *outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = told;
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS.min(paths.len()) {
            scope.spawn(work);
        }
        work();
    });
    outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// `O_NOFOLLOW` and `O_NONBLOCK` of Linux.
const NO_LINK_NO_WAIT: i32 = (rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits()) as i32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_files_are_brought_to_the_disk() {
        let directory = tempfile::TempDir::new().unwrap();
        let layer = directory.path().join("layer");
        fs::create_dir_all(layer.join("workspace/a/b")).unwrap();
        std::os::unix::fs::symlink("/nowhere", layer.join("workspace/link")).unwrap();
        fs::write(layer.join("workspace/a/b/file"), "text").unwrap();
        let mut found = Vec::new();
        assert!(collect(&layer, &mut found) && found.len() == 5);
        bring_to_disk(std::slice::from_ref(&layer), &[directory.path()]).unwrap();
        for number in 0..FEW {
            fs::write(layer.join(format!("workspace/{number}")), "text").unwrap();
        }
        assert!(!collect(&layer, &mut Vec::new()));
        bring_to_disk(&[layer], &[directory.path()]).unwrap();
        assert!(bring_to_disk(&[directory.path().join("missing")], &[directory.path()]).is_ok());
    }
}
