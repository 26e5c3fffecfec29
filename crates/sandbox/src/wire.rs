//! What a place's keeper and its init say to each other: one message is one packet, descriptors ride along.
//!
//! Fields are length-prefixed bytes; both ends are this code, so the format has no version of its own.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};

/// The largest message: an argument list and an environment as large as the kernel takes for a program, and a little more.
pub const LARGEST: usize = 256 << 10;
/// A process has three descriptors to begin with.
pub const DESCRIPTORS: usize = 3;

#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn new(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub fn number(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn bytes(mut self, value: &[u8]) -> Self {
        self.0.extend((value.len() as u64).to_le_bytes());
        self.0.extend(value);
        self
    }

    pub fn list<'a>(self, values: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let count = values.len() as u64;
        values.fold(self.number(count), |writer, value| writer.bytes(value))
    }

    pub fn send(self, socket: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if self.0.len() > LARGEST {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        loop {
            match sendmsg(socket, &[IoSlice::new(&self.0)], &mut ancillary, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => return outcome.map(drop).map_err(io::Error::from),
            }
        }
    }
}

pub struct Reader {
    bytes: Vec<u8>,
    at: usize,
    pub descriptors: Vec<OwnedFd>,
}

impl Reader {
    /// The next message; none when the other end is gone.
    pub fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; LARGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
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
        bytes.truncate(received.bytes);
        Ok(Some(Self { bytes, at: 1, descriptors }))
    }

    pub fn kind(&self) -> u8 {
        self.bytes[0]
    }

    fn take(&mut self, length: usize) -> io::Result<&[u8]> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADMSG))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub fn number(&mut self) -> io::Result<u64> {
        let mut value = [0; 8];
        value.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(value))
    }

    pub fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.number()?).map_err(|_| io::Error::from_raw_os_error(libc::EBADMSG))?;
        Ok(self.take(length)?.to_vec())
    }

    pub fn list(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let count = self.number()?;
        (0..count).map(|_| self.bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn a_message_and_its_descriptors_arrive_whole() {
        let (left, right) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let passed = std::fs::File::open("/dev/null").unwrap();
        Writer::new(7).number(9).list([b"a".as_slice(), b""].into_iter()).send(left.as_fd(), &[passed.as_fd()]).unwrap();
        let mut message = Reader::receive(right.as_fd()).unwrap().unwrap();
        assert_eq!((message.kind(), message.number().unwrap()), (7, 9));
        assert_eq!(message.list().unwrap(), [b"a".to_vec(), Vec::new()]);
        assert_eq!(message.descriptors.len(), 1);
        assert!(message.number().is_err(), "nothing is left");
        drop(left);
        assert!(Reader::receive(right.as_fd()).unwrap().is_none());
    }
}
