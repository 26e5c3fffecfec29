//! Paths of the new root, step by step: no link is followed, so that none leads out of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, mkdirat, openat, openat2, statat};
use rustix::io::Errno;

use crate::error::{Error, Result, Step};

/// A path of the plan, relative to the root: no step of it leads anywhere else.
pub fn relative(path: &Path) -> Result<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(|| bad_path(path))?),
            _ => return Err(bad_path(path)),
        }
    }
    if parts.is_empty() { Err(bad_path(path)) } else { Ok(parts.join("/")) }
}

fn bad_path(path: &Path) -> Error {
    Error::Inside(format!("`{}` is not a place to mount something", path.display()))
}

/// What is at a path below an open directory, if anything is. A link on the way, or at its end, is an error.
pub fn find(base: BorrowedFd<'_>, path: &str) -> Result<Option<OwnedFd>> {
    match openat2(base, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::LOOP) => Err(Error::Inside(format!("`/{path}` leads through a link"))),
        Err(error) => Err(error).step(format!("look for /{path}")),
    }
}

/// What an open path is.
pub fn status(found: BorrowedFd<'_>) -> Result<Stat> {
    statat(found, "", AtFlags::EMPTY_PATH).step("look at a path")
}

pub fn is_directory(found: BorrowedFd<'_>) -> Result<bool> {
    Ok(FileType::from_raw_mode(status(found)?.st_mode).is_dir())
}

/// The point that something is mounted on; made where it is missing, if `may_make` says so of the filesystem that it would be made in.
pub fn make(base: BorrowedFd<'_>, path: &str, directory: bool, may_make: impl Fn(u64) -> bool) -> Result<OwnedFd> {
    if let Some(found) = find(base, path)? {
        if is_directory(found.as_fd())? != directory {
            return Err(Error::Inside(format!(
                "`/{path}` is {}a directory, unlike what belongs there",
                if directory { "not " } else { "" }
            )));
        }
        return Ok(found);
    }
    let parts: Vec<&str> = path.split('/').collect();
    let mut above: Option<OwnedFd> = None;
    for (number, part) in parts.iter().enumerate() {
        let last = number + 1 == parts.len();
        let at = above.as_ref().map_or(base, AsFd::as_fd);
        // Of a single step it was just seen that it is missing.
        if parts.len() > 1
            && let Some(found) = find(at, part)?
        {
            above = Some(found);
            continue;
        }
        let status = status(at)?;
        if !FileType::from_raw_mode(status.st_mode).is_dir() {
            return Err(Error::Inside(format!("`/{path}` leads through a file")));
        }
        if !may_make(status.st_dev) {
            return Err(Error::Inside(format!("`/{path}` is missing, and making it would change the host")));
        }
        if last && !directory {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(at, *part, flags, Mode::from_raw_mode(0o644)).map(drop).step(format!("make /{path}"))?;
        } else {
            mkdirat(at, *part, Mode::from_raw_mode(0o755)).step(format!("make /{path}"))?;
        }
        above = find(at, part)?;
        if above.is_none() {
            return Err(Error::Inside(format!("`/{path}` went away")));
        }
    }
    above.ok_or_else(|| bad_path(Path::new(path)))
}
