//! Who is at the other end of a unix socket.
//!
//! The uid alone does not tell: code inside a sandbox may run under the same uid as the owner. What it cannot share is the owner's user and
//! pid namespace. So the peer is held by a pidfd, which names one process for good, and its namespaces are compared with our own. Where the
//! kernel cannot say (before 6.5, or when `/proc` hides the process), the answer is an error and never a guess.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    pub pid: i32,
}

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("the kernel does not say who is at the other end of the socket (SO_PEERPIDFD, Linux 6.5 or newer): {0}")]
    Unsupported(std::io::Error),
    #[error("the process at the other end is gone or hidden")]
    Gone,
    #[error("the process at the other end is in another {0} namespace")]
    OtherNamespace(&'static str),
    #[error("the namespaces of the process at the other end cannot be read: {0}")]
    Hidden(std::io::Error),
}

// The libc crate does not have it for every target yet; the number is the same on all that use the generic socket options.
const SO_PEERPIDFD: libc::c_int = 77;

/// The uid that this process runs as.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The peer of a connected unix stream socket, if it is provably outside any sandbox.
pub fn identify(socket: BorrowedFd<'_>) -> Result<Peer, PeerError> {
    let credentials = rustix::net::sockopt::socket_peercred(socket).map_err(|error| PeerError::Unsupported(error.into()))?;
    let pidfd = peer_pidfd(socket)?;
    let pid = pid_of(&pidfd)?;
    for name in ["user", "pid"] {
        let theirs = std::fs::read_link(format!("/proc/{pid}/ns/{name}")).map_err(PeerError::Hidden)?;
        let ours = std::fs::read_link(format!("/proc/self/ns/{name}")).map_err(PeerError::Hidden)?;
        if theirs != ours {
            return Err(PeerError::OtherNamespace(name));
        }
    }
    // The pid may have gone to another process while we read: the pidfd still knows the first one.
    if pid_of(&pidfd)? != pid {
        return Err(PeerError::Gone);
    }
    Ok(Peer { uid: credentials.uid.as_raw(), pid })
}

fn peer_pidfd(socket: BorrowedFd<'_>) -> Result<OwnedFd, PeerError> {
    let mut descriptor: libc::c_int = -1;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: `socket` is open for the duration of the call, and the kernel writes at most `length` bytes, the size of `descriptor`, to it.
    let outcome =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, (&raw mut descriptor).cast(), &raw mut length) };
    if outcome != 0 || descriptor < 0 {
        return Err(PeerError::Unsupported(std::io::Error::last_os_error()));
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The pid that the descriptor stands for, in our own pid namespace. The kernel says -1 for one that has ended and 0 for one we cannot see.
fn pid_of(pidfd: &OwnedFd) -> Result<i32, PeerError> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).map_err(PeerError::Hidden)?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|pid| pid.trim().parse::<i32>().ok());
    pid.filter(|pid| *pid > 0).ok_or(PeerError::Gone)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn our_own_process_is_recognised() {
        let (left, _right) = UnixStream::pair().unwrap();
        let peer = identify(left.as_fd()).unwrap();
        assert_eq!((peer.uid, peer.pid), (rustix::process::getuid().as_raw(), i32::try_from(std::process::id()).unwrap()));
    }

    /// Lets a child connect from where `wrapper` puts it, and asks who it is while it holds the connection.
    fn from(wrapper: &[&str]) -> Result<Peer, PeerError> {
        let path = std::env::temp_dir().join(format!("stead-peer-{}-{}", std::process::id(), wrapper.len()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let script = format!("import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect({path:?}); sys.stdin.read()");
        let mut child =
            Command::new(wrapper[0]).args(&wrapper[1..]).args(["python3", "-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
        let (socket, _) = listener.accept().unwrap();
        let answer = identify(socket.as_fd());
        drop(child.stdin.take());
        child.wait().unwrap();
        std::fs::remove_file(&path).unwrap();
        answer
    }

    #[test]
    fn a_process_in_a_sandbox_of_the_same_uid_is_refused() {
        assert!(from(&["env"]).is_ok(), "the probe itself works");
        assert!(matches!(from(&["unshare", "--user", "--map-root-user"]), Err(PeerError::OtherNamespace("user"))));
        if rustix::process::geteuid().is_root() {
            assert!(matches!(from(&["unshare", "--pid", "--fork"]), Err(PeerError::OtherNamespace("pid"))));
        }
        assert!(from(&["unshare", "--user", "--map-root-user", "--pid", "--fork"]).is_err());
    }

    #[test]
    fn a_peer_that_has_ended_is_refused() {
        let path = std::env::temp_dir().join(format!("stead-peer-ended-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let script = format!("import socket; s=socket.socket(socket.AF_UNIX); s.connect({path:?})");
        let status = Command::new("python3").args(["-c", &script]).status().unwrap();
        assert!(status.success());
        let (socket, _) = listener.accept().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(identify(socket.as_fd()).is_err());
    }
}
