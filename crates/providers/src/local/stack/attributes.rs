//! Owner, mode, times and extended attributes, from one entry to another.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown, fgetxattr, flistxattr, fsetxattr,
    fstat, futimens, utimensat,
};
use rustix::io::Errno;

use super::marks;
use crate::local::entry::file_type;

/// Whether what the kernel's overlay keeps for itself is carried over as well.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    Kept,
    Left,
}

/// To what is open: last of all, because the mode may shut us out, and writing would change the times.
pub fn carry(from: BorrowedFd<'_>, stat: &Stat, to: BorrowedFd<'_>, marks: Marks) -> io::Result<()> {
    let made = fstat(to)?;
    // Only where it differs: an ordinary user may give nothing away.
    if (made.st_uid, made.st_gid) != (stat.st_uid, stat.st_gid) {
        fchown(to, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
    }
    fchmod(to, mode(stat))?;
    extended(from, to, marks)?;
    Ok(futimens(to, &times(stat))?)
}

/// To a name that we made a moment ago and that cannot be opened: a link, a pipe, a socket, a device.
pub fn carry_to_name(stat: &Stat, to: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let made = rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (made.st_uid, made.st_gid) != (stat.st_uid, stat.st_gid) {
        chownat(to, name, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if file_type(stat) != rustix::fs::FileType::Symlink {
        chmodat(to, name, mode(stat), AtFlags::empty())?;
    }
    Ok(utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
}

pub fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

pub fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
    }
}

/// Labels of the host's own policy are not among them: it gives them itself.
const CARRIED: &[&[u8]] = &[b"user.", b"trusted.", b"system.posix_acl_", b"security.capability"];

fn extended(from: BorrowedFd<'_>, to: BorrowedFd<'_>, marks: Marks) -> io::Result<()> {
    for (name, value) in read(from, marks)? {
        fsetxattr(to.as_fd(), &name, &value, XattrFlags::empty())?;
    }
    Ok(())
}

/// The extended attributes of something, without those of the kernel's overlay.
pub fn own(of: impl AsFd) -> io::Result<BTreeMap<OsString, Vec<u8>>> {
    read(of.as_fd(), Marks::Left)
}

/// Every extended attribute that belongs to what is open, with its value.
pub fn each(from: BorrowedFd<'_>, mut visitor: impl FnMut(&[u8], Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    read(from, Marks::Kept)?.into_iter().try_for_each(|(name, value)| visitor(name.as_bytes(), value))
}

fn read(from: BorrowedFd<'_>, marks: Marks) -> io::Result<BTreeMap<OsString, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let list = match grown(|buffer| flistxattr(from, buffer)) {
        Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => return Ok(found),
        outcome => outcome?,
    };
    for name in list.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let is_mark = name.starts_with(marks::PREFIX.as_bytes());
        if !CARRIED.iter().any(|prefix| name.starts_with(prefix)) || (is_mark && marks == Marks::Left) {
            continue;
        }
        let name = OsStr::from_bytes(name);
        match grown(|buffer| fgetxattr(from, name, buffer)) {
            Ok(value) => drop(found.insert(name.to_owned(), value)),
            Err(error) if error.raw_os_error() == Some(Errno::NODATA.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// What the kernel gives no more of than this.
const LARGEST: usize = 64 * 1024;

fn grown(mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> io::Result<Vec<u8>> {
    for size in [256, 4096, LARGEST] {
        let mut buffer = vec![0; size];
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::RANGE.into())
}
