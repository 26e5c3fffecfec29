//! One server at the other end of a socket. It may be slow, gone or wrong: nothing of that stops the steward.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use crate::protocol::{Answer, Decoder, Request, Word, encode};

/// What may wait to be sent. Whoever reads less than that behind is cut off and comes back to ask.
const PATIENCE: usize = 1 << 20;

/// How long somebody who does not listen is waited for at the end.
const LAST_WORDS: Duration = Duration::from_millis(200);

pub struct Peer {
    stream: UnixStream,
    decoder: Decoder,
    outgoing: Vec<u8>,
    sent: usize,
}

impl Peer {
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, decoder: Decoder::default(), outgoing: Vec::new(), sent: 0 })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub fn wants_to_write(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Whether it has asked for something already.
    pub fn is_waiting(&self) -> bool {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&now)), Ok(1))
    }

    /// Everything that has been asked by now; an error when it is gone.
    pub fn requests(&mut self) -> io::Result<Vec<(Request, Vec<u8>)>> {
        let mut buffer = [0; 16 << 10];
        let mut requests = Vec::new();
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.decoder.push(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        while let Some((request, carried)) = self.decoder.take()? {
            // Input may lie here for long, and would keep everything that arrived with it.
            requests.push((request, carried.to_vec()));
        }
        Ok(requests)
    }

    pub fn answer(&mut self, number: u64, answer: Answer) -> io::Result<()> {
        self.say(&Word::Answer { number, answer })
    }

    pub fn say(&mut self, word: &impl Serialize) -> io::Result<()> {
        self.outgoing.extend(encode(word, &[])?);
        self.flush()
    }

    pub fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.outgoing.len() {
            self.outgoing.clear();
            self.sent = 0;
        }
        if self.outgoing.len() > PATIENCE { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// The stream itself, for somebody who waits on it, with all said that was to be said.
    pub fn into_stream(mut self) -> io::Result<UnixStream> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(LAST_WORDS))?;
        self.stream.write_all(&self.outgoing[self.sent..])?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream)
    }

    /// Says what is left before the steward ends, and waits for it a moment at most.
    pub fn finish(mut self) {
        let _ = self.stream.set_nonblocking(false);
        let _ = self.stream.set_write_timeout(Some(LAST_WORDS));
        let _ = self.stream.write_all(&self.outgoing[self.sent..]);
    }
}
