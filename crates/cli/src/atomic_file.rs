//! Files that are either there whole or not there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::failure::{Result, file_error};
use crate::world;

/// Writes a file that was not there. False when it was: then nothing has changed.
pub fn create_new(path: &Path, bytes: &[u8], mode: u32) -> Result<bool> {
    let temporary = write_beside(path, bytes, mode)?;
    let placed = match renameat_with(CWD, &temporary, CWD, path, RenameFlags::NOREPLACE) {
        // Some file systems do not know the flag; a link never replaces either.
        Err(Errno::INVAL | Errno::NOSYS) => fs::hard_link(&temporary, path).and_then(|()| fs::remove_file(&temporary)),
        outcome => outcome.map_err(io::Error::from),
    };
    finish(
        path,
        &temporary,
        placed.map(|()| true).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(false),
            _ => Err(error),
        }),
    )
}

/// Writes a file, over one that is there.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let temporary = write_beside(path, bytes, mode)?;
    let placed = fs::rename(&temporary, path);
    finish(path, &temporary, placed.map(|()| true)).map(drop)
}

fn finish(path: &Path, temporary: &Path, placed: io::Result<bool>) -> Result<bool> {
    if !matches!(placed, Ok(true)) {
        // What matters has been decided; a leftover that cannot be removed changes nothing.
        let _ = fs::remove_file(temporary);
    }
    let placed = placed.map_err(|error| file_error("write", path, &error))?;
    if placed {
        File::open(parent(path)).and_then(|directory| directory.sync_all()).map_err(|error| file_error("write", path, &error))?;
    }
    Ok(placed)
}

/// A whole, synced copy under a name that nobody else uses, in the same directory so that it can be renamed.
fn write_beside(path: &Path, bytes: &[u8], mode: u32) -> Result<PathBuf> {
    let failed = |error: io::Error| file_error("write", path, &error);
    let directory = parent(path);
    // Directories of private files are private too.
    let directory_mode = if mode & 0o077 == 0 { 0o700 } else { 0o777 };
    DirBuilder::new().recursive(true).mode(directory_mode).create(directory).map_err(failed)?;
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let random: [u8; 8] = world::context().random();
    let temporary = directory.join(format!(".{}.{:016x}.tmp", name.to_string_lossy(), u64::from_be_bytes(random)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary).map_err(failed)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(failed(error));
    }
    Ok(temporary)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_new_file_never_replaces_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/file");
        assert!(create_new(&path, b"one", 0o600).unwrap());
        assert!(!create_new(&path, b"two", 0o600).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"three", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_that_leads_nowhere_counts_as_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), &path).unwrap();
        assert!(!create_new(&path, b"one", 0o644).unwrap());
        assert!(!directory.path().join("elsewhere").exists());
    }
}
