//! Whether an end is still there. One that only has nothing more to send looks, at first, like one that is gone.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use tokio::io::Interest;

use crate::splice::Plain;

/// How long a connection may be quiet before the other side is asked whether it is there, and how long it then has, three times.
const QUIET: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(15);
/// How often a local socket is looked at: the kernel wakes nobody who does not wait to read or write.
const LOOK: Duration = Duration::from_secs(1);

/// Has the kernel ask now and then.
pub fn ask(end: &Plain<'_>) {
    if let Plain::Tcp(stream) = end {
        // Without it a peer that vanished is only noticed when something is sent.
        let _ = sockopt::set_socket_keepalive(stream, true);
        let _ = sockopt::set_tcp_keepidle(stream, QUIET);
        let _ = sockopt::set_tcp_keepintvl(stream, ANSWER);
        let _ = sockopt::set_tcp_keepcnt(stream, 3);
    }
}

/// Returns when the other side is gone for both directions. What a local one sent before is not lost: it counts as gone only once `ended`
/// says that all of it was passed on.
pub async fn gone(end: &Plain<'_>, ended: &AtomicBool) -> io::Error {
    match end {
        Plain::Tcp(stream) => {
            let look = || match stream.take_error()? {
                Some(error) => Ok(error),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
            end.when(Interest::ERROR, look).await.unwrap_or_else(|error| error)
        }
        Plain::Unix(_) => loop {
            let mut watched = [PollFd::from_borrowed_fd(end.as_fd(), PollFlags::empty())];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let hung_up = poll(&mut watched, Some(&at_once)).is_ok() && watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
            if hung_up && ended.load(Ordering::Relaxed) {
                return io::ErrorKind::BrokenPipe.into();
            }
            tokio::time::sleep(LOOK).await;
        },
    }
}
