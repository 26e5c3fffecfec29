//! Unix sockets below directories of any length: the kernel takes 107 bytes, and a path through an open directory is always short.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The name of a steward's socket in its directory.
pub const SOCKET: &str = "socket";

/// As many bytes as the kernel takes.
const LONGEST: usize = 107;

/// The path of the socket in a directory: the directory's own if it is short enough, else one through the directory, which is held open. The
/// path is good for as long as what comes with it.
pub fn short(directory: &Path) -> io::Result<(Option<OwnedFd>, PathBuf)> {
    let path = directory.join(SOCKET);
    if path.as_os_str().len() <= LONGEST {
        return Ok((None, path));
    }
    let held = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd()));
    Ok((Some(held), path))
}

/// Whether somebody made it there, and did not take it away again.
#[cfg(any(test, feature = "steward"))]
pub fn is_there(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory.join(SOCKET)).is_ok()
}
