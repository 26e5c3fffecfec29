//! Files that are either there whole or not there, and reading those that somebody else may have put there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use stead_domain::{Code, Error};

use crate::failure::{Result, file_error};
use crate::world;

/// The most that is read of one file.
const LARGEST_FILE: u64 = 1 << 20;

/// What a path holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Contents {
    Bytes(Vec<u8>),
    Missing,
    /// More than 1 MiB, which nothing that is read here needs.
    TooLarge,
}

/// Reads a regular file of at most 1 MiB. It is opened without waiting, because a pipe of that name would wait for ever, and judged once it
/// is open, because the name may mean something else by then. A size is not believed: in `/proc` it is nothing and the file without end.
pub fn read_bounded(path: &Path) -> Result<Contents> {
    let failed = |error: io::Error| file_error("read", path, &error);
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(Contents::Missing),
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Error::new(Code::LocalFile, format!("{} is not a file", path.display())).into());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(if bytes.len() as u64 > LARGEST_FILE { Contents::TooLarge } else { Contents::Bytes(bytes) })
}

/// A path that is mistyped would otherwise become directories.
pub fn check_directory(path: &Path) -> Result<()> {
    match path.parent().filter(|directory| !directory.as_os_str().is_empty() && !directory.is_dir()) {
        Some(directory) => Err(Error::new(Code::LocalFile, format!("there is no directory {}", directory.display()))
            .detail("path", path.display().to_string())
            .suggestion(format!("make it first: mkdir -p {}", directory.display()))
            .into()),
        None => Ok(()),
    }
}

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
    fn reading_neither_waits_nor_goes_on_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("small"), "x").unwrap();
        fs::write(path("most"), vec![0; 1 << 20]).unwrap();
        fs::write(path("large"), vec![0; (1 << 20) + 1]).unwrap();
        assert_eq!(read_bounded(&path("small")).unwrap(), Contents::Bytes(b"x".to_vec()));
        assert!(matches!(read_bounded(&path("most")).unwrap(), Contents::Bytes(_)));
        assert_eq!(read_bounded(&path("large")).unwrap(), Contents::TooLarge);
        assert_eq!(read_bounded(&path("none")).unwrap(), Contents::Missing);
        assert_eq!(read_bounded(&path("small/below")).unwrap(), Contents::Missing);
        rustix::fs::mkfifoat(CWD, path("pipe"), rustix::fs::Mode::RUSR).unwrap();
        for refused in [path("pipe"), directory.path().to_owned(), "/dev/zero".into()] {
            assert!(read_bounded(&refused).is_err(), "{}", refused.display());
        }
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
