//! The directories of a sandbox: made, looked at, thrown away.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::directory::Directory;

/// What every sandbox has: the files that work happens on, and a place beside them for what is not to be kept with them.
const PARTS: &[&str] = &["workspace", "runtime"];

pub fn parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    PARTS.iter().map(move |part| path.join(part))
}

/// Makes the directories that are not there yet. Only the server's own user looks into them.
pub fn create(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    for directory in std::iter::once(path.to_owned()).chain(parts(path)) {
        match builder.create(&directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && directory.is_dir() => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

pub fn is_whole(path: &Path) -> Result<bool> {
    for part in parts(path) {
        match fs::symlink_metadata(part) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(false),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Whether it is whole, with nothing in it, and no link to another.
pub fn is_fresh(path: &Path) -> bool {
    let is_empty = |part: PathBuf| fs::read_dir(part).is_ok_and(|mut entries| entries.next().is_none());
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) && is_whole(path).unwrap_or(false) && parts(path).all(is_empty)
}

/// Removes one without a single file in it; whether it was so.
pub fn discard_empty(path: &Path) -> Result<bool> {
    for directory in parts(path).chain([path.to_owned()]) {
        match fs::remove_dir(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => return Ok(false),
            outcome => outcome?,
        }
    }
    Ok(true)
}

/// So many of one name may lie in the trash at a time.
const ATTEMPTS: u32 = 1000;

/// Moves a sandbox out of the way in one step; whether there was one.
pub fn discard(path: &Path, trash: &Path) -> Result<bool> {
    let mut to = trash.to_owned();
    let mut unlocked = false;
    for attempt in 1..=ATTEMPTS {
        match fs::rename(path, &to) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            // Nothing but sandboxes belongs there.
            Err(error) if error.kind() == ErrorKind::NotADirectory => fs::remove_file(&to)?,
            // One of that name lies there from an earlier attempt, and may take long to remove.
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::IsADirectory) => {
                to = trash.with_added_extension(attempt.to_string());
            }
            // A directory changes its parent only with permission to write into itself, and that was taken from this one.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !unlocked => {
                unlocked = true;
                let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(error) };
                Directory::open(parent)?.enter(name).map_err(|_| error)?.unlock();
            }
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// A directory that was entered while a tree is measured: which one, and what is still to be entered in it.
struct Entered {
    identity: (u64, u64),
    below: Vec<OsString>,
}

/// What a tree occupies on the disk. However deep it is, one directory of it is open at a time.
pub fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    let mut total = metadata.blocks() * 512;
    if !metadata.is_dir() {
        return total;
    }
    let Ok(mut at) = Directory::open(path) else { return total };
    let mut entered = vec![Entered::measure(&at, &mut total)];
    while let Some(level) = entered.last_mut() {
        if let Some(name) = level.below.pop() {
            if let Ok(directory) = at.enter(&name) {
                let level = Entered::measure(&directory, &mut total);
                // Nothing to enter means nothing to come back from, which could be refused.
                if !level.below.is_empty() {
                    at = directory;
                    entered.push(level);
                }
            }
            continue;
        }
        entered.pop();
        let Some(above) = entered.last() else { break };
        match at.leave() {
            Ok(directory) if directory.identity() == above.identity => at = directory,
            // Moved elsewhere meanwhile. The next measurement sees the rest.
            _ => break,
        }
    }
    total
}

impl Entered {
    fn measure(directory: &Directory, total: &mut u64) -> Self {
        let mut below = Vec::new();
        for entry in directory.entries().into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            *total += metadata.blocks() * 512;
            if metadata.is_dir() {
                below.push(entry.file_name());
            }
        }
        Self { identity: directory.identity(), below }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_lies_in_the_trash_a_sandbox_finds_its_place() {
        let directory = tempfile::TempDir::new().unwrap();
        let (sandbox, trash) = (directory.path().join("one"), directory.path().join("trash"));
        fs::create_dir(&trash).unwrap();
        let target = trash.join("one");
        assert!(!discard(&sandbox, &target).unwrap());
        create(&sandbox).unwrap();
        fs::write(&target, "not a directory").unwrap();
        assert!(discard(&sandbox, &target).unwrap());
        assert!(is_whole(&target).unwrap());
        for _ in 0..3 {
            create(&sandbox).unwrap();
            assert!(discard(&sandbox, &target).unwrap());
        }
        assert!(!sandbox.exists());
        assert_eq!(fs::read_dir(&trash).unwrap().count(), 4);
        fs::write(&sandbox, "in place of a directory").unwrap();
        assert!(discard(&sandbox, &target).unwrap());
        assert!(!sandbox.exists());
    }

    #[test]
    fn every_file_of_a_tree_is_measured_once() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path();
        let before = size(path);
        for name in ["a/b/c", "a/d", "e"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        let empty = size(path);
        for name in ["a/b/c/file", "a/d/file", "e/file", "file"] {
            fs::write(path.join(name), vec![1; 64 * 1024]).unwrap();
        }
        assert!(before <= empty);
        let grown = size(path) - empty;
        assert!((4 * 64 * 1024..5 * 64 * 1024).contains(&grown), "{grown}");
        assert!(size(&path.join("file")) >= 64 * 1024);
        assert_eq!(size(&path.join("missing")), 0);
    }
}
