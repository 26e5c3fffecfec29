//! Moving and copying.

use std::fs::{self, FileTimes, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, RenameFlags, renameat_with};
use rustix::io::Errno;
use stead_domain::files::{FilePath, FileProblem};

use super::reading::open;
use super::removing::remove;
use crate::tree::trouble::{At, Result, as_path, failure};

pub fn rename(from: &FilePath, to: &FilePath, overwrite: bool) -> Result<()> {
    let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, as_path(from), CWD, as_path(to), flags) {
        // Two file systems inside: the workspace and the root, say.
        Err(Errno::XDEV) => {
            copy(from, to, overwrite)?;
            remove(from, true)
        }
        Err(Errno::NOENT) => Err(Errno::NOENT).at(if fs::symlink_metadata(as_path(from)).is_ok() { to } else { from }),
        outcome => outcome.at(to),
    }
}

/// A file, a link as a link, or a directory with everything in it.
pub fn copy(from: &FilePath, to: &FilePath, overwrite: bool) -> Result<()> {
    let existing = fs::symlink_metadata(as_path(to));
    if existing.is_ok() && !overwrite {
        return Err(failure(to, FileProblem::Exists, ""));
    }
    let kind = fs::symlink_metadata(as_path(from)).at(from)?.file_type();
    if is_one(from, to) || (kind.is_dir() && lies_in(as_path(to), as_path(from))) {
        return Err(failure(to, FileProblem::Other, "nothing can be copied onto or into itself"));
    }
    // What is of another kind, or a link that would be written through, makes room.
    if existing.is_ok_and(|existing| existing.file_type() != kind || !(kind.is_file() || kind.is_dir())) {
        remove(to, false)?;
    }
    copy_one(from, to)
}

/// Whether both names lead to the same file or directory.
fn is_one(from: &FilePath, to: &FilePath) -> bool {
    let identity = |path: &FilePath| fs::metadata(as_path(path)).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(from).is_some_and(|identity_of_from| identity(to) == Some(identity_of_from))
}

fn lies_in(inner: &Path, outer: &Path) -> bool {
    let parent = inner.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (parent.canonicalize(), outer.canonicalize()) {
        (Ok(parent), Ok(outer)) => parent.starts_with(outer),
        _ => false,
    }
}

fn copy_one(from: &FilePath, to: &FilePath) -> Result<()> {
    let (source, target) = (as_path(from), as_path(to));
    let metadata = fs::symlink_metadata(source).at(from)?;
    let kind = metadata.file_type();
    // In a directory that is merged with another.
    if !kind.is_dir() && is_one(from, to) {
        return Err(failure(to, FileProblem::Other, "nothing can be copied onto itself"));
    }
    if (kind.is_symlink() || kind.is_fifo()) && fs::symlink_metadata(target).is_ok_and(|existing| !existing.is_dir()) {
        fs::remove_file(target).at(to)?;
    }
    if kind.is_symlink() {
        return symlink(fs::read_link(source).at(from)?, target).at(to);
    }
    if kind.is_fifo() {
        return rustix::fs::mknodat(CWD, target, FileType::Fifo, Mode::from_raw_mode(metadata.permissions().mode() & 0o777), 0).at(to);
    }
    if kind.is_dir() {
        match fs::create_dir(target) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && target.is_dir() => {}
            outcome => outcome.at(to)?,
        }
        for found in fs::read_dir(source).at(from)? {
            use std::os::unix::ffi::OsStrExt;
            let name = found.at(from)?.file_name();
            copy_one(&from.join(name.as_bytes()), &to.join(name.as_bytes()))?;
        }
        // Last: a directory that may not be written to could not be filled.
        return fs::set_permissions(target, metadata.permissions()).at(to);
    }
    let (mut reading, _) = open(from, OpenOptions::new().read(true))?;
    // Never into what a name leads to that is there: it may be another name of what is read, or a link.
    match fs::symlink_metadata(target) {
        Ok(existing) if existing.is_dir() => return Err(failure(to, FileProblem::IsADirectory, "")),
        Ok(_) => fs::remove_file(target).at(to)?,
        Err(_) => {}
    }
    let (mut writing, _) = open(to, OpenOptions::new().write(true).create_new(true))?;
    std::io::copy(&mut reading, &mut writing).at(to)?;
    writing.set_permissions(metadata.permissions()).at(to)?;
    let times = metadata.modified().map(|time| FileTimes::new().set_modified(time));
    times.and_then(|times| writing.set_times(times)).at(to)
}
