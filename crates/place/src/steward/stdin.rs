//! What a process reads. Every byte has an offset, so that a repeated send is written once.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::protocol::Refusal;

/// What may wait for a program that does not read.
const PENDING: usize = 256 << 10;

pub struct Stdin {
    /// None once it is closed, by either side.
    pipe: Option<OwnedFd>,
    pending: VecDeque<u8>,
    taken: u64,
    ended: bool,
    /// A terminal is not closed; it is told with a character that there is nothing more.
    terminal: bool,
}

const END_OF_TRANSMISSION: u8 = 4;

impl Stdin {
    pub fn new(pipe: Option<OwnedFd>, terminal: bool) -> Self {
        Self { ended: pipe.is_none(), pipe, pending: VecDeque::new(), taken: 0, terminal }
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The pipe, when something waits to be written to it.
    pub fn waits_for(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref().filter(|_| !self.pending.is_empty())
    }

    /// Takes what is new of it, as far as there is room; answers how far it has been taken.
    pub fn take(&mut self, offset: u64, bytes: &[u8], end: bool) -> Result<u64, Refusal> {
        let known = self.taken.checked_sub(offset).ok_or(Refusal::StdinOffset { offset: self.taken })?;
        let fresh = usize::try_from(known).ok().and_then(|known| bytes.get(known..)).unwrap_or_default();
        if !fresh.is_empty() && (self.pipe.is_none() || self.ended) {
            return Err(Refusal::StdinClosed);
        }
        let room = PENDING.saturating_sub(self.pending.len());
        let accepted = &fresh[..fresh.len().min(room)];
        self.pending.extend(accepted);
        self.taken += accepted.len() as u64;
        if end && accepted.len() == fresh.len() && !self.ended {
            self.ended = true;
            if self.terminal {
                self.pending.push_back(END_OF_TRANSMISSION);
            }
        }
        self.write();
        Ok(self.taken)
    }

    /// Writes what the program takes now.
    pub fn write(&mut self) {
        while let Some(pipe) = &self.pipe {
            let (first, _) = self.pending.as_slices();
            if first.is_empty() {
                if self.ended && !self.terminal {
                    self.pipe = None;
                }
                return;
            }
            match rustix::io::write(pipe, first) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Nobody reads it any more.
                Err(_) => self.close(),
            }
        }
    }

    pub fn close(&mut self) {
        self.pipe = None;
        self.ended = true;
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn a_repeated_send_is_written_once() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let mut stdin = Stdin::new(Some(writer), false);
        assert_eq!(stdin.take(0, b"abc", false), Ok(3));
        assert_eq!(stdin.take(0, b"abc", false), Ok(3));
        assert_eq!(stdin.take(1, b"bcdef", false), Ok(6));
        assert_eq!(stdin.take(9, b"x", false), Err(Refusal::StdinOffset { offset: 6 }));
        assert_eq!(stdin.take(6, b"", true), Ok(6));
        assert_eq!(stdin.take(6, b"more", true), Err(Refusal::StdinClosed));
        assert_eq!(stdin.take(3, b"def", true), Ok(6), "said again after the end");
        let mut text = String::new();
        std::fs::File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcdef");
    }

    #[test]
    fn a_program_that_does_not_read_costs_no_memory() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let mut stdin = Stdin::new(Some(writer), false);
        let chunk = vec![7; 1 << 20];
        let first = stdin.take(0, &chunk, true).unwrap();
        assert!(first < chunk.len() as u64);
        assert!(stdin.take(first, &chunk[first as usize..], true).unwrap() <= PENDING as u64 + (64 << 10));
        drop(reader);
        stdin.write();
        assert_eq!(stdin.take(stdin.taken(), b"x", false), Err(Refusal::StdinClosed));
    }
}
