//! One steward for an environment: whoever holds the lock on its directory. The kernel lets go of it however a steward ends.

#[cfg(any(test, feature = "steward"))]
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
#[cfg(any(test, feature = "steward"))]
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

#[cfg(any(test, feature = "steward"))]
use crate::spare_directory;

fn open(directory: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(any(test, feature = "steward"))]
/// Takes the lock, and makes the directory for it; none when somebody has it.
pub fn take(directory: &Path) -> io::Result<Option<OwnedFd>> {
    loop {
        if !spare_directory::take(directory) {
            match DirBuilder::new().recursive(true).mode(0o700).create(directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                outcome => outcome?,
            }
        }
        match lock(directory)? {
            Locked::Ours(held) => return Ok(Some(held)),
            Locked::Others => return Ok(None),
            // The one before us removed it a moment ago.
            Locked::Gone => {}
        }
    }
}

#[cfg(any(test, feature = "steward"))]
/// Takes the lock of a directory that is there; none when somebody has it, and none when it is gone: nobody is to see it come back.
pub fn take_left(directory: &Path) -> io::Result<Option<OwnedFd>> {
    match lock(directory)? {
        Locked::Ours(held) => Ok(Some(held)),
        Locked::Others | Locked::Gone => Ok(None),
    }
}

#[cfg(any(test, feature = "steward"))]
enum Locked {
    Ours(OwnedFd),
    Others,
    Gone,
}

#[cfg(any(test, feature = "steward"))]
fn lock(directory: &Path) -> io::Result<Locked> {
    let held = match open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Locked::Gone),
        outcome => outcome?,
    };
    match flock(&held, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Locked::Others),
        outcome => outcome?,
    }
    // A directory that was removed between the two, or is kept for another environment now, would keep nobody out.
    Ok(if is_at(&held, directory) { Locked::Ours(held) } else { Locked::Gone })
}

/// Whether a directory that was opened under a name still has it: those of environments that sleep become others'.
pub fn is_at(held: impl AsFd, directory: &Path) -> bool {
    match (rustix::fs::fstat(held), rustix::fs::stat(directory)) {
        (Ok(ours), Ok(now)) => (now.st_dev, now.st_ino) == (ours.st_dev, ours.st_ino),
        _ => false,
    }
}

/// Whether a steward holds it now.
pub fn is_held(directory: &Path) -> io::Result<bool> {
    let held = match open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        outcome => outcome?,
    };
    match flock(&held, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(is_at(&held, directory)),
        outcome => outcome.map(|()| false).map_err(io::Error::from),
    }
}

#[cfg(any(test, feature = "steward"))]
/// Removes a directory whose lock the caller holds, with everything in it.
pub fn remove(directory: &Path, held: OwnedFd) -> io::Result<()> {
    let removed = if spare_directory::keep(directory) { Ok(()) } else { fs::remove_dir_all(directory) };
    drop(held);
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_then_the_next() {
        let above = tempfile::TempDir::new().unwrap();
        let directory = above.path().join("run/one");
        assert!(!is_held(&directory).unwrap());
        let held = take(&directory).unwrap().unwrap();
        assert!(is_held(&directory).unwrap());
        assert!(take(&directory).unwrap().is_none());
        remove(&directory, held).unwrap();
        assert!(!is_held(&directory).unwrap());
        drop(take(&directory).unwrap().unwrap());
        assert!(!is_held(&directory).unwrap(), "whoever ends lets go");
        let left = take_left(&directory).unwrap().unwrap();
        remove(&directory, left).unwrap();
        assert!(take_left(&directory).unwrap().is_none() && !directory.exists(), "what is gone stays gone");
    }

    #[test]
    fn a_directory_that_another_one_has_by_now_is_locked_by_nobody_else() {
        let above = tempfile::TempDir::new().unwrap();
        let [one, other] = ["one", "other"].map(|name| above.path().join("run").join(name));
        let held = take(&one).unwrap().unwrap();
        // Somebody opened it a moment before it went.
        let opened = open(&one).unwrap();
        let inode = rustix::fs::fstat(&opened).unwrap().st_ino;
        remove(&one, held).unwrap();
        let held = take(&other).unwrap().unwrap();
        assert_eq!(rustix::fs::fstat(&held).unwrap().st_ino, inode, "it is used again");
        assert!(!is_held(&one).unwrap() && is_held(&other).unwrap());
        let also = take(&one).unwrap().unwrap();
        assert_ne!(rustix::fs::fstat(&also).unwrap().st_ino, inode);
    }
}
