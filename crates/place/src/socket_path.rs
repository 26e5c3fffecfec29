//! Unix sockets below directories of any length: the kernel takes 107 bytes, a path through an open directory is always short.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The name of a steward's socket in its directory.
pub const SOCKET: &str = "socket";

/// A directory that is held open, and the short path of the socket in it. The path is good for as long as the descriptor.
pub fn short(directory: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let held = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd()));
    Ok((held, path))
}
