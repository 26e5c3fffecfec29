//! What a place's keeper and its init say to each other: one message is one packet, descriptors ride along.
//!
//! Fields are length-prefixed bytes; both ends are this code, so the format has no version of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::message;

/// What fits into a packet. More goes through memory that is passed along.
const PACKET: usize = 16 << 10;
/// The largest message: more than the kernel takes as arguments and environment of a program, so that it is the kernel that says no.
const LARGEST: usize = 8 << 20;
/// The kind of a packet whose message lies in the memory that came with it.
const ELSEWHERE: u8 = 0;

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

    /// Sends it, and waits for room.
    pub fn send(self, socket: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if self.0.len() <= PACKET {
            return message::send(socket, &self.0, descriptors);
        }
        if self.0.len() > LARGEST {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let memory = rustix::fs::memfd_create(c"message", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut at = 0;
        while at < self.0.len() {
            at += rustix::io::pwrite(&memory, &self.0[at..], at as u64)?;
        }
        let all: Vec<BorrowedFd<'_>> = std::iter::once(memory.as_fd()).chain(descriptors.iter().copied()).collect();
        message::send(socket, &[ELSEWHERE], &all)
    }

    /// Sends it if there is room now. Only for messages that are small.
    pub fn send_now(&self, socket: BorrowedFd<'_>, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        message::send_now(socket, &self.0, descriptors)
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
        Self::receive_by(socket, message::receive)
    }

    /// The next message if there is one, else `WouldBlock`.
    pub fn receive_now(socket: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        Self::receive_by(socket, message::receive_now)
    }

    fn receive_by(
        socket: BorrowedFd<'_>,
        receive: impl Fn(BorrowedFd<'_>, &mut [u8]) -> io::Result<Option<message::Received>>,
    ) -> io::Result<Option<Self>> {
        let mut packet = [0; PACKET];
        let Some(received) = receive(socket, &mut packet)? else { return Ok(None) };
        let mut reader = Self { bytes: packet[..received.length].to_vec(), at: 1, descriptors: received.descriptors };
        if reader.kind() == ELSEWHERE {
            if reader.descriptors.is_empty() {
                return Err(io::Error::from_raw_os_error(libc::EBADMSG));
            }
            reader.bytes = read_all(&reader.descriptors.remove(0))?;
        }
        Ok(Some(reader))
    }

    pub fn kind(&self) -> u8 {
        self.bytes.first().copied().unwrap_or(ELSEWHERE)
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

fn read_all(memory: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 1 << 20];
    while bytes.len() <= LARGEST {
        let length = rustix::io::pread(memory, &mut part, bytes.len() as u64)?;
        if length == 0 {
            return Ok(bytes);
        }
        bytes.extend(&part[..length]);
    }
    Err(io::Error::from_raw_os_error(libc::EMSGSIZE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_and_its_descriptors_arrive_whole() {
        let (left, right) = message::pair().unwrap();
        let passed = std::fs::File::open("/dev/null").unwrap();
        Writer::new(7).number(9).list([b"a".as_slice(), b""].into_iter()).send(left.as_fd(), &[passed.as_fd()]).unwrap();
        let mut message = Reader::receive(right.as_fd()).unwrap().unwrap();
        assert_eq!((message.kind(), message.number().unwrap()), (7, 9));
        assert_eq!(message.list().unwrap(), [b"a".to_vec(), Vec::new()]);
        assert_eq!(message.descriptors.len(), 1);
        assert!(message.number().is_err(), "nothing is left");
        assert_eq!(Reader::receive_now(right.as_fd()).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(left);
        assert!(Reader::receive(right.as_fd()).unwrap().is_none());
    }

    #[test]
    fn a_message_larger_than_a_packet_arrives_whole_too() {
        let (left, right) = message::pair().unwrap();
        let passed = std::fs::File::open("/dev/null").unwrap();
        let large = vec![7; 3 << 20];
        Writer::new(7).bytes(&large).send(left.as_fd(), &[passed.as_fd(), passed.as_fd(), passed.as_fd()]).unwrap();
        let mut message = Reader::receive(right.as_fd()).unwrap().unwrap();
        assert_eq!((message.kind(), message.descriptors.len()), (7, 3));
        assert_eq!(message.bytes().unwrap(), large);
        let refused = Writer::new(7).bytes(&vec![7; LARGEST]).send(left.as_fd(), &[]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::E2BIG));
    }
}
