//! The directories of a sandbox: made, looked at, thrown away.

use std::fs;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// What every sandbox has: the files that work happens on, and a place beside them for what is not to be kept with them.
const PARTS: &[&str] = &["workspace", "runtime"];

/// Makes the directories that are not there yet. Only the server's own user looks into them.
pub fn create(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    for directory in std::iter::once(path.to_owned()).chain(PARTS.iter().map(|part| path.join(part))) {
        match builder.create(&directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && directory.is_dir() => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

pub fn is_whole(path: &Path) -> Result<bool> {
    for part in PARTS {
        match fs::symlink_metadata(path.join(part)) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(false),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Moves a sandbox out of the way in one step; whether there was one.
pub fn discard(path: &Path, trash: &Path) -> Result<bool> {
    match fs::rename(path, trash) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // One of that name lies there from an earlier attempt; it goes first.
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
            fs::remove_dir_all(trash)?;
            fs::rename(path, trash).map(|()| true)
        }
        Err(error) => Err(error),
    }
}

/// Removes everything in a directory. Links are removed, never followed.
pub fn empty(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let removed = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(&path),
            _ => fs::remove_file(&path),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => tracing::warn!(path = %path.display(), %error, "not removed yet"),
            _ => {}
        }
    }
}

/// What a tree occupies on the disk.
pub fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    let own = metadata.blocks() * 512;
    if !metadata.is_dir() {
        return own;
    }
    own + fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum::<u64>()
}
