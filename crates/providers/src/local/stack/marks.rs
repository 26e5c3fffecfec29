//! How a layer says that something below it is not there: as the kernel writes it, and as the kernel reads it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Stat, fgetxattr};
use rustix::io::Errno;

use crate::local::cursor::{Cursor, open_file};
use crate::local::entry::file_type;

/// What the kernel keeps in a layer for itself begins so.
pub const PREFIX: &str = "user.overlay.";
pub const OPAQUE: &str = "user.overlay.opaque";
const WHITEOUT: &str = "user.overlay.whiteout";

/// Whether what a layer has under a name only says that nothing is there.
///
/// A file with the attribute counts in every directory: the kernel finds nothing under its name, whatever the directory says of itself.
pub fn is_whiteout(directory: &Cursor, name: &OsStr, stat: &Stat) -> io::Result<bool> {
    Ok(match file_type(stat) {
        FileType::CharacterDevice => stat.st_rdev == 0,
        FileType::RegularFile if stat.st_size == 0 => {
            // One that cannot be opened is an ordinary file of somebody else's mode.
            open_file(directory.as_fd(), name).is_ok_and(|file| has(file.as_fd(), WHITEOUT).unwrap_or(false))
        }
        _ => false,
    })
}

/// Whether a directory hides the ones of its name in the layers below.
pub fn is_opaque(directory: BorrowedFd<'_>) -> io::Result<bool> {
    let mut value = [0u8; 8];
    match fgetxattr(directory, OPAQUE, &mut value) {
        // `x` says only that files in it may be whiteouts.
        Ok(length) => Ok(value.get(..length) == Some(b"y")),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether an attribute means the same on another host: any that is no mark, and the two marks where the kernel reads them. All others
/// name something of the host that they were written on.
pub fn may_be_carried(name: &[u8], value: &[u8], stat: &Stat) -> bool {
    match name {
        name if name == OPAQUE.as_bytes() => file_type(stat) == FileType::Directory && matches!(value, b"y" | b"x"),
        name if name == WHITEOUT.as_bytes() => file_type(stat) == FileType::RegularFile && stat.st_size == 0 && matches!(value, b"" | b"y"),
        name => !name.starts_with(PREFIX.as_bytes()),
    }
}

fn has(file: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    let mut value = [0u8; 8];
    match fgetxattr(file, name, &mut value) {
        Ok(_) | Err(Errno::RANGE) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
