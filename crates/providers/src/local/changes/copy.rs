//! One entry of the layer into the workspace. What takes the place of something else does so in one step.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, chmodat, chownat, fchmod, fchown, futimens, linkat,
    mknodat, openat, readlinkat, renameat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::{Obstacle, Result};
use crate::local::cursor::{Cursor, open_file};
use crate::local::entry::file_type;
use crate::local::removal;

/// What is being written, before it gets its name. One that a crash left is taken over by the repetition.
pub const UNFINISHED: &str = ".stead-keep-7d1c40.new";
/// Files with several names that are remembered, so that they stay one file.
const MOST_LINKS: usize = 256;

/// Who files of the workspace belong to, and what was copied already under another name.
pub struct Copying {
    owner: Option<(Uid, Gid)>,
    links: HashMap<(u64, u64), OwnedFd>,
}

impl Copying {
    /// As root everything goes to the workspace's own owner; anybody else owns what they make.
    pub fn into_workspace(workspace: &Stat) -> Self {
        let owner = rustix::process::geteuid().is_root().then(|| (Uid::from_raw(workspace.st_uid), Gid::from_raw(workspace.st_gid)));
        Self { owner, links: HashMap::new() }
    }

    /// Puts what the layer has under a name into the workspace's directory, in place of what is there.
    pub fn copy(&mut self, from: BorrowedFd<'_>, to: &Cursor, name: &OsStr, stat: &Stat) -> Result<()> {
        let directory = to.as_fd();
        match unlinkat(directory, UNFINISHED, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match file_type(stat) {
            FileType::RegularFile => self.file(from, directory, name, stat)?,
            FileType::Symlink => {
                let target = readlinkat(from, name, Vec::new())?;
                symlinkat(target.as_c_str(), directory, UNFINISHED)?;
                self.own(directory, UNFINISHED)?;
                utimensat(directory, UNFINISHED, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            kind @ (FileType::Fifo | FileType::Socket) => {
                mknodat(directory, UNFINISHED, kind, Mode::from_raw_mode(0o600), 0)?;
                self.own(directory, UNFINISHED)?;
                // Made by us a moment ago, and no link.
                chmodat(directory, UNFINISHED, mode(stat), AtFlags::empty())?;
            }
            _ => return Err(Obstacle::Io(io::ErrorKind::InvalidInput.into())),
        }
        // A directory gives way only when it is gone.
        if to.look(name)?.is_some_and(|there| file_type(&there) == FileType::Directory) {
            remove(to, name)?;
        }
        renameat(directory, UNFINISHED, directory, name)?;
        Ok(())
    }

    fn file(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> Result<()> {
        let identity = (stat.st_dev, stat.st_ino);
        if let Some(known) = self.links.get(&identity) {
            let known = format!("/proc/self/fd/{}", known.as_raw_fd());
            if linkat(CWD, known.as_str(), to, UNFINISHED, AtFlags::SYMLINK_FOLLOW).is_ok() {
                return Ok(());
            }
        }
        let source = match open_file(from, name) {
            // Its owner may not read it; the layer's copy is on its way out.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                chmodat(from, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
                open_file(from, name)?
            }
            outcome => outcome?,
        };
        if file_type(&rustix::fs::fstat(&source)?) != FileType::RegularFile {
            return Err(Obstacle::Io(io::Error::other("it became something else meanwhile")));
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = openat(to, UNFINISHED, flags, Mode::from_raw_mode(0o600))?;
        let mut written = File::from(target);
        io::copy(&mut File::from(source), &mut written)?;
        let target = OwnedFd::from(written);
        if let Some((user, group)) = self.owner {
            fchown(&target, Some(user), Some(group))?;
        }
        fchmod(&target, mode(stat))?;
        futimens(&target, &times(stat))?;
        if stat.st_nlink > 1 && self.links.len() < MOST_LINKS {
            self.links.insert(identity, target);
        }
        Ok(())
    }

    fn own(&self, directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> io::Result<()> {
        match self.owner {
            Some((user, group)) => Ok(chownat(directory, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?),
            None => Ok(()),
        }
    }

    /// A new directory that only we look into until it is finished.
    pub fn make_directory(&self, to: &Cursor, name: &OsStr) -> io::Result<()> {
        rustix::fs::mkdirat(to.as_fd(), name, Mode::RWXU)?;
        self.own(to.as_fd(), name)
    }

    /// Gives a directory, whose content is there, its mode and times.
    pub fn finish_directory(&self, directory: &OwnedFd, stat: &Stat) -> io::Result<()> {
        fchmod(directory, mode(stat))?;
        Ok(futimens(directory, &times(stat))?)
    }
}

/// Without the bits that would let a file of the inside act as its owner outside.
fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o777)
}

fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
    }
}

/// Removes what the workspace has under a name, whatever it is. What is mounted in it is not touched, and stands in the way.
pub fn remove(from: &Cursor, name: &OsStr) -> Result<()> {
    let Some(there) = from.look(name)? else { return Ok(()) };
    if file_type(&there) != FileType::Directory {
        unlinkat(from.as_fd(), name, AtFlags::empty())?;
        return Ok(());
    }
    let directory = from.below(name)?;
    check_for_mounts(from.below(name)?)?;
    let held = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
    let left = removal::empty(Path::new(&held), &AtomicBool::new(false));
    if left.count > 0 {
        return Err(Obstacle::Io(left.cause.unwrap_or_else(|| io::Error::other("something in it cannot be removed"))));
    }
    unlinkat(from.as_fd(), name, AtFlags::REMOVEDIR)?;
    Ok(())
}

/// An environment sees no mounts of the host below its workspace, so it cannot have meant to remove what is in them.
fn check_for_mounts(mut at: Cursor) -> Result<()> {
    let directories = |at: &Cursor| -> io::Result<Vec<std::ffi::OsString>> {
        let mut names = at.names()?;
        names.retain(|name| at.look(name).ok().flatten().is_some_and(|stat| file_type(&stat) == FileType::Directory));
        Ok(names)
    };
    let mut levels = vec![directories(&at)?];
    while let Some(level) = levels.last_mut() {
        match level.pop() {
            Some(name) => match at.enter(&name) {
                Ok(()) => levels.push(directories(&at).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error.into()),
            },
            None => {
                levels.pop();
                if at.depth() > 0 {
                    at.leave()?;
                }
            }
        }
    }
    Ok(())
}
