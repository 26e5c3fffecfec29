//! Whether two files hold the same.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, pread};

const PIECE: usize = 64 * 1024;

/// Compares so many bytes. Where neither has any on the disk nothing is read: a file may claim to be longer than anybody could wait for.
pub fn are_same(left: &OwnedFd, right: &OwnedFd, size: u64, stopped: &AtomicBool) -> io::Result<bool> {
    let (mut ours, mut theirs) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = 0;
    while at < size {
        if stopped.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        at = next_data(left, at, size)?.min(next_data(right, at, size)?);
        let wanted = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
        let (ours, theirs) = (read(left, &mut ours[..wanted], at)?, read(right, &mut theirs[..wanted], at)?);
        if ours != theirs {
            return Ok(false);
        }
        // Both became shorter meanwhile.
        if ours.len() < wanted {
            break;
        }
        at += wanted as u64;
    }
    Ok(true)
}

fn next_data(file: &OwnedFd, at: u64, size: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(data.min(size)),
        Err(Errno::NXIO) => Ok(size),
        // A file system that knows no holes.
        Err(Errno::INVAL) => Ok(at),
        Err(error) => Err(error.into()),
    }
}

/// As much as there is, up to the whole buffer.
pub fn read(file: impl AsFd, buffer: &mut [u8], at: u64) -> io::Result<&[u8]> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match pread(&file, rest, at + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(&buffer[..length])
}
