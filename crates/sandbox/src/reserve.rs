//! Names that must not be made inside a directory of the host: taken for as long as a place lives.
//!
//! Nothing can be mounted on a name that is not there, so an empty file or directory stands in for it, and goes when the last place that
//! relies on it has ended. One that was left by a crash is known by its mark.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, Uid, XattrFlags, fchown, flock, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::error::{Result, Step};
use crate::plan::{Access, Plan, Source};
use crate::targets;

const MARK: &str = "user.stead.reserved";

/// One name that is taken.
pub struct Reserved {
    directory: OwnedFd,
    name: String,
    /// Locked together with the other places that rely on it.
    held: OwnedFd,
    is_directory: bool,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // Not while another place relies on it.
        if flock(&self.held, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // A directory goes only if it is empty, and a file in which nobody could write is.
            let _ = unlinkat(&self.directory, self.name.as_str(), if self.is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() });
        }
    }
}

/// Whether an open path is such a stand-in.
pub fn is_stand_in(path: BorrowedFd<'_>) -> bool {
    rustix::fs::getxattr(format!("/proc/self/fd/{}", path.as_raw_fd()), MARK, &mut [0u8; 1]).is_ok()
}

/// Takes what the plan protects, is missing, and would lie in a directory of the host.
pub fn take(plan: &Plan) -> Result<Vec<Reserved>> {
    let mut taken = Vec::new();
    for path in &plan.protected {
        if let Some((source, below)) = writable_source(plan, path)? {
            taken.extend(take_one(&source, &below)?);
        }
    }
    Ok(taken)
}

/// The directory of the host that a path inside lies in, if it can be written there, and the path below it.
fn writable_source(plan: &Plan, path: &Path) -> Result<Option<(PathBuf, String)>> {
    let bind = plan.binds.iter().filter(|bind| path.starts_with(&bind.target)).max_by_key(|bind| bind.target.components().count());
    match bind.map(|bind| (&bind.source, path.strip_prefix(&bind.target))) {
        Some((Source::Host { path: source, access: Access::ReadWrite }, Ok(below))) if below != Path::new("") => {
            Ok(Some((source.clone(), targets::relative(below)?)))
        }
        _ => Ok(None),
    }
}

fn take_one(source: &Path, below: &str) -> Result<Option<Reserved>> {
    let step = || format!("reserve {below} in {}", source.display());
    let mut at = openat(CWD, source, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).step(step())?;
    let parts: Vec<&str> = below.split('/').collect();
    for (number, part) in parts.iter().enumerate() {
        let last = number + 1 == parts.len();
        // A few rounds: another place may take or leave the same name meanwhile.
        for _ in 0..100 {
            match targets::find(at.as_fd(), part)? {
                Some(found) => {
                    let is_directory = targets::is_directory(found.as_fd())?;
                    match adopt(&at, part, is_directory).step(step())? {
                        Adopted::Taken(held) => {
                            return Ok(Some(Reserved { directory: at, name: (*part).to_owned(), held, is_directory }));
                        }
                        // A file where a directory would have to be is protected itself.
                        Adopted::Ordinary if !is_directory => return Ok(None),
                        Adopted::Ordinary => {
                            at = found;
                            break;
                        }
                        Adopted::Gone => {}
                    }
                }
                None => match make(&at, part, !last) {
                    // Where we cannot make it, nobody inside can.
                    Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(None),
                    outcome => outcome.step(step())?,
                },
            }
        }
    }
    Ok(None)
}

enum Adopted {
    /// It is one of ours, and we hold it.
    Taken(OwnedFd),
    /// It is something of the owner's.
    Ordinary,
    Gone,
}

fn adopt(directory: &OwnedFd, name: &str, is_directory: bool) -> rustix::io::Result<Adopted> {
    let kind = if is_directory { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
    let held = match openat(directory, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind, Mode::empty()) {
        Ok(held) => held,
        Err(Errno::NOENT) => return Ok(Adopted::Gone),
        // What we may not even read is not of our making.
        Err(Errno::ACCESS | Errno::PERM | Errno::NXIO) => return Ok(Adopted::Ordinary),
        Err(error) => return Err(error),
    };
    if rustix::fs::fgetxattr(&held, MARK, &mut [0u8; 1]).is_err() {
        return Ok(Adopted::Ordinary);
    }
    flock(&held, FlockOperation::LockShared)?;
    let ours = rustix::fs::fstat(&held)?;
    // Held, but it may have been let go by another between the two.
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) if there.st_ino == ours.st_ino => Ok(Adopted::Taken(held)),
        Ok(_) | Err(Errno::NOENT) => Ok(Adopted::Gone),
        Err(error) => Err(error),
    }
}

/// Makes the stand-in, marked and owned as what is around it. That it is ours is found out as for one that was there.
fn make(directory: &OwnedFd, name: &str, is_directory: bool) -> Result<(), Errno> {
    let held = if is_directory {
        match mkdirat(directory, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(()),
            Err(error) => return Err(error),
        }
        openat(directory, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    } else {
        openat(directory, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
    };
    let held = match held {
        Ok(held) => held,
        // Somebody else was quicker.
        Err(Errno::EXIST | Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let around = rustix::fs::fstat(directory)?;
    if rustix::process::geteuid().is_root() {
        fchown(&held, Some(Uid::from_raw(around.st_uid)), Some(Gid::from_raw(around.st_gid)))?;
    }
    if let Err(error) = rustix::fs::fsetxattr(&held, MARK, b"1", XattrFlags::empty()) {
        // Without a mark nobody would know it for ours: then there is none.
        let _ = unlinkat(directory, name, if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() });
        return Err(error);
    }
    rustix::fs::fchmod(&held, Mode::from_raw_mode(if is_directory { 0o555 } else { 0o444 }))
}
