//! A walk through one tree, with one directory open at a time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat, openat2, statat};
use rustix::io::Errno;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub struct Cursor {
    at: OwnedFd,
    /// The directories above, up to where the walk began.
    above: Vec<(u64, u64)>,
}

impl Cursor {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { at: open(path, FLAGS, Mode::empty())?, above: Vec::new() })
    }

    /// A walk of its own that begins in the directory where this one is.
    pub fn below(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self { at: enter(self.at.as_fd(), name)?, above: Vec::new() })
    }

    pub fn depth(&self) -> usize {
        self.above.len()
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.at.as_fd()
    }

    pub fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let next = enter(self.at.as_fd(), name)?;
        // Names may be read there; whoever may not look them up could not even go back.
        statat(&next, ".", AtFlags::SYMLINK_NOFOLLOW)?;
        self.above.push(identity(&fstat(&self.at)?));
        self.at = next;
        Ok(())
    }

    /// Goes back up, and gives the directory that was left.
    pub fn leave(&mut self) -> io::Result<OwnedFd> {
        let expected = self.above.last().copied().ok_or(io::ErrorKind::NotFound)?;
        let up = openat(&self.at, "..", FLAGS, Mode::empty())?;
        if identity(&fstat(&up)?) != expected {
            return Err(io::Error::other("a directory was moved elsewhere meanwhile"));
        }
        self.above.pop();
        Ok(std::mem::replace(&mut self.at, up))
    }

    /// In the order of their bytes, so that two walks meet the same names in the same order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(|name| names.push(name.to_owned()))?;
        names.sort();
        Ok(names)
    }

    /// In the order in which the file system has them.
    pub fn each_name(&self, mut visitor: impl FnMut(&OsStr)) -> io::Result<()> {
        for entry in Dir::read_from(&self.at)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                visitor(OsStr::from_bytes(name));
            }
        }
        Ok(())
    }

    /// Which directory this is.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        Ok(identity(&fstat(&self.at)?))
    }

    /// What a name is itself, not where it leads.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A directory in this one: a link to one is none, and what is mounted over it is not entered.
fn enter(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let mut moved = 0;
    loop {
        match openat2(at, name, FLAGS, Mode::empty(), resolve) {
            // Something was renamed at the same moment.
            Err(Errno::AGAIN) => {}
            // Moved out of this directory at the same moment; or something is mounted there, which stays so.
            Err(Errno::XDEV) if moved < MOVED => moved += 1,
            outcome => return Ok(outcome?),
        }
    }
}

/// How often a directory may be moved away just when it is entered.
const MOVED: usize = 16;

pub fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// A file of the present directory by name, for reading; never waits for the other end of a pipe.
pub fn open_file(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    loop {
        match openat2(at, name, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            outcome => return Ok(outcome?),
        }
    }
}

/// Whether something went away or became something else since it was looked at.
pub fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO].map(Errno::raw_os_error);
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

/// Only for a path that we made ourselves.
pub fn exists(path: &Path) -> io::Result<bool> {
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
