//! One entry of the layer into the workspace. What takes the place of something else does so in one step.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, chmodat, chownat, fchmod, fchown, futimens, linkat, mknodat, openat, readlinkat,
    symlinkat, utimensat,
};

use super::workspace::{UNFINISHED, Workspace};
use super::{Obstacle, Result};
use crate::local::cursor::open_file;
use crate::local::entry::file_type;
use crate::local::stack::attributes::times;

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
    pub fn copy(&mut self, from: BorrowedFd<'_>, to: &Workspace, name: &OsStr, stat: &Stat) -> Result<()> {
        to.clear()?;
        let directory = to.written()?.as_fd();
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
        to.finish(name)
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
    pub fn make_directory(&self, to: &Workspace, name: &OsStr) -> io::Result<()> {
        to.make_directory(name, self.owner)
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
