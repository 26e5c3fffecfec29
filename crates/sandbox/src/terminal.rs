//! Terminals of the place's own.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

/// A new terminal of this size: the keeper's end, and three of the program's.
pub fn open(rows: u16, columns: u16) -> io::Result<(OwnedFd, [OwnedFd; 3])> {
    let keeper = rustix::fs::open("/dev/pts/ptmx", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::pty::unlockpt(&keeper)?;
    // By the keeper's end and not by name, so that it is the other end of this one.
    // SAFETY: the argument is a number; the kernel makes a new descriptor.
    let program = unsafe { libc::ioctl(keeper.as_raw_fd(), libc::TIOCGPTPEER, libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) };
    if program < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and only we know it.
    let program = unsafe { OwnedFd::from_raw_fd(program) };
    let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&keeper, size)?;
    let (output, errors) = (program.try_clone()?, program.try_clone()?);
    Ok((keeper, [program, output, errors]))
}
