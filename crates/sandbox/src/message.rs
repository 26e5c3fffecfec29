//! One message with descriptors over a unix socket that keeps messages apart (SEQPACKET).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// As many descriptors as one message may carry.
pub const DESCRIPTORS: usize = 64;

/// What one message brought beside the bytes in the caller's buffer.
#[derive(Debug)]
pub struct Received {
    pub length: usize,
    /// They do not go on to programs.
    pub descriptors: Vec<OwnedFd>,
}

/// Two connected sockets that keep messages apart.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message; waits for room if the socket waits at all. A message has at least one byte: an empty one would look like the end.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(socket, bytes, descriptors, SendFlags::NOSIGNAL)
}

/// Sends one message if there is room for it, else fails with `WouldBlock`.
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(socket, bytes, descriptors, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
    if bytes.is_empty() || descriptors.len() > DESCRIPTORS {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome.map(drop).map_err(io::Error::from),
        }
    }
}

/// The next message; waits for one if the socket waits at all. None when the other end is gone; `EMSGSIZE` when the buffer is too small
/// or there were more descriptors than we may have.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Received>> {
    receive_with(socket, buffer, RecvFlags::CMSG_CLOEXEC)
}

/// The next message if there is one, else fails with `WouldBlock`.
pub fn receive_now(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Received>> {
    receive_with(socket, buffer, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
}

fn receive_with(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: RecvFlags) -> io::Result<Option<Received>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags) {
            Err(rustix::io::Errno::INTR) => {}
            // It was gone before it had read all that we had sent.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            outcome => break outcome?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    Ok(Some(Received { length: received.bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn messages_stay_apart_and_bring_their_descriptors() {
        let (left, right) = pair().unwrap();
        let passed = std::fs::File::open("/dev/null").unwrap();
        send(left.as_fd(), b"first", &[passed.as_fd(), passed.as_fd()]).unwrap();
        send(left.as_fd(), b"second", &[]).unwrap();
        assert!(send(left.as_fd(), b"", &[]).is_err());
        let mut buffer = [0; 16];
        let first = receive(right.as_fd(), &mut buffer).unwrap().unwrap();
        assert_eq!((&buffer[..first.length], first.descriptors.len()), (b"first".as_slice(), 2));
        let second = receive_now(right.as_fd(), &mut buffer).unwrap().unwrap();
        assert_eq!((&buffer[..second.length], second.descriptors.len()), (b"second".as_slice(), 0));
        assert_eq!(receive_now(right.as_fd(), &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        send(left.as_fd(), &[1; 17], &[]).unwrap();
        assert_eq!(receive(right.as_fd(), &mut buffer).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        drop(left);
        assert!(receive(right.as_fd(), &mut buffer).unwrap().is_none());
    }
}
