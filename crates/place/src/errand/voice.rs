//! The stream to whoever asked.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use serde::Serialize;

use crate::protocol::{Decoder, Sent, Task, encode, encode_head};

/// What is sent and read at once.
pub const PIECE: usize = 256 << 10;

pub struct Voice {
    stream: UnixStream,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Voice {
    pub fn new(descriptor: OwnedFd) -> Self {
        Self { stream: UnixStream::from(descriptor), decoder: Decoder::default(), buffer: vec![0; PIECE] }
    }

    /// The bytes go out from where they lie.
    pub fn say(&mut self, word: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
        let head = encode_head(word, bytes.len())?;
        let mut said = 0;
        while said < head.len() + bytes.len() {
            let (first, second) = (&head[said.min(head.len())..], &bytes[said.saturating_sub(head.len())..]);
            match self.stream.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => said += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// To see when whoever listens has gone: nothing is sent to one that only speaks.
    pub fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Says something and hands a descriptor over with it.
    pub fn hand_out(&mut self, word: &impl Serialize, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        stead_sandbox::message::send(self.stream.as_fd(), &encode(word, &[])?, &[descriptor])
    }

    pub fn hear_task(&mut self) -> io::Result<Task> {
        Ok(self.hear()?.0)
    }

    /// The next bytes that were sent; none when it was all.
    pub fn piece(&mut self) -> io::Result<Option<Bytes>> {
        match self.hear::<Sent>()? {
            (Sent::Bytes, bytes) => Ok(Some(bytes)),
            (Sent::End, _) => Ok(None),
        }
    }

    fn hear<T: serde::de::DeserializeOwned>(&mut self) -> io::Result<(T, Bytes)> {
        loop {
            if let Some(heard) = self.decoder.take()? {
                return Ok(heard);
            }
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.decoder.push(&self.buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
