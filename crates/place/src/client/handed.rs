//! Connections that are handed out of a place. Whoever hands them over is a process that nothing inside can look into; what comes is looked
//! at all the same before it is used.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketType, getpeername, ipproto, recvmsg, sockopt,
};
use tokio::net::TcpStream;

pub struct Received {
    pub length: usize,
    pub descriptor: Option<OwnedFd>,
}

/// What has arrived, with a descriptor if one came along. Of more than one the kernel closes what there is no room for.
pub fn receive(stream: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    Ok(Received { length: received.bytes, descriptor })
}

/// A descriptor that is a connection over TCP, and nothing else.
pub fn as_connection(handed: OwnedFd) -> io::Result<TcpStream> {
    let family = sockopt::socket_domain(&handed)?;
    let is_stream = sockopt::socket_type(&handed)? == SocketType::STREAM;
    let is_tcp = sockopt::socket_protocol(&handed)? == Some(ipproto::TCP);
    let is_internet = family == AddressFamily::INET || family == AddressFamily::INET6;
    if !(is_internet && is_stream && is_tcp) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "what was handed out of the place is no connection"));
    }
    getpeername(&handed)?;
    let stream = std::net::TcpStream::from(handed);
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    TcpStream::from_std(stream)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    #[tokio::test]
    async fn only_a_connection_is_taken_for_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        as_connection(connected.into()).unwrap();
        let (unix, _other) = UnixStream::pair().unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        for wrong in [OwnedFd::from(listener), unix.into(), datagrams.into(), std::fs::File::open("/dev/null").unwrap().into()] {
            assert!(as_connection(wrong).is_err());
        }
    }

    #[test]
    fn of_many_descriptors_one_is_taken_and_none_is_left_open() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (alive, passed) = UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let rights = [passed.as_fd(); 3];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&rights)));
        sendmsg(&theirs, &[io::IoSlice::new(b"word")], &mut ancillary, SendFlags::empty()).unwrap();
        drop(passed);
        let mut buffer = [0; 16];
        let received = receive(ours.as_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..received.length], b"word");
        assert!(received.descriptor.is_some());
        drop(received);
        // Its other end is told that nobody holds it any more.
        assert_eq!(std::io::Read::read(&mut &alive, &mut buffer).unwrap(), 0);
    }
}
