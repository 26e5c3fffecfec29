//! One entry that is no directory, made again in another directory with everything that belongs to it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, ioctl_ficlone, makedev, mknodat, openat, readlinkat, symlinkat};
use rustix::io::Errno;

use super::attributes::{self, Marks};
use crate::local::cursor::open_file;
use crate::local::entry::file_type;

/// How a file gets what it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Copied,
    /// Both have the same blocks until either is written to; refused where the file system has no such thing.
    Shared,
}

/// Gives the new file, if it is one.
pub fn carry(from: BorrowedFd<'_>, name: &OsStr, stat: &Stat, to: BorrowedFd<'_>, content: Content) -> io::Result<Option<OwnedFd>> {
    match file_type(stat) {
        FileType::RegularFile => return file(from, name, to, content).map(Some),
        FileType::Symlink => symlinkat(readlinkat(from, name, Vec::new())?.as_c_str(), to, name)?,
        kind @ (FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice) => {
            mknodat(to, name, kind, Mode::from_raw_mode(0o600), stat.st_rdev)?;
        }
        _ => return Err(io::Error::other("it is something that nobody knows")),
    }
    attributes::carry_to_name(stat, to, name)?;
    Ok(None)
}

/// Says that nothing is there, whatever the layers below have.
pub fn whiteout(to: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    Ok(mknodat(to, name, FileType::CharacterDevice, Mode::empty(), makedev(0, 0))?)
}

fn file(from: BorrowedFd<'_>, name: &OsStr, to: BorrowedFd<'_>, content: Content) -> io::Result<OwnedFd> {
    let source = open_file(from, name)?;
    let stat = fstat(&source)?;
    if file_type(&stat) != FileType::RegularFile {
        return Err(io::Error::other("it became something else meanwhile"));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(to, name, flags, Mode::from_raw_mode(0o600))?;
    let (source, made) = match content {
        Content::Copied => {
            let (mut source, mut made) = (File::from(source), File::from(made));
            io::copy(&mut source, &mut made)?;
            (OwnedFd::from(source), OwnedFd::from(made))
        }
        // What holds nothing has no blocks to share.
        Content::Shared if stat.st_size == 0 => (source, made),
        Content::Shared => {
            ioctl_ficlone(&made, &source).map_err(|error| match error {
                Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS => io::Error::from(io::ErrorKind::Unsupported),
                error => error.into(),
            })?;
            (source, made)
        }
    };
    attributes::carry(source.as_fd(), &stat, made.as_fd(), Marks::Kept)?;
    Ok(made)
}
