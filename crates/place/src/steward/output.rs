//! One stream of a process: read, cleared of what must not be shown, stored. Once it is stored it may be told.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use stead_domain::ids::ProcessId;
use stead_domain::process::OutputStream;
use stead_redaction::{Known, Redactor};

use super::clock;
use crate::log::{Kind, LogWriter};

/// How much is read at once: little at first, because most programs say little and fresh memory costs time, and more when that was not enough.
const FIRST_READ: usize = 4 << 10;
pub const READ: usize = 256 << 10;

/// Milliseconds of silence after which it is shown what was held back, because it may be the beginning of a value. Whoever looks at a prompt
/// does not notice them, and between two writes of one program there are fewer.
const SILENCE: u64 = 20;
/// How many bytes of a value are shown by that at most, however slowly a program says it. By chance a few bytes look like a beginning, such as
/// the end of a prompt; four that do are looked at more closely, and then they most likely are one.
const SHOWN: usize = 3;

/// Where a process says something, until every writer is gone.
pub struct Output {
    pub stream: OutputStream,
    from: OwnedFd,
    /// None while nothing is known: then nothing is looked at.
    redactor: Option<Box<Redactor>>,
    /// When what is held back is to be shown, if nothing comes before.
    pub release_at: Option<u64>,
}

/// What came of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    Nothing,
    /// All of it may be held back.
    Bytes,
    End,
}

impl Output {
    pub fn new(stream: OutputStream, from: OwnedFd, known: Option<&Known>) -> Self {
        let redactor = known.map(|known| Box::new(Redactor::new(known.clone())));
        Self { stream, from, redactor, release_at: None }
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    /// Reads once, and stores what can be told by now. An error says that the disk does not take it; what was read is not lost, see [`Hold`].
    pub fn read(&mut self, process: ProcessId, log: &mut LogWriter, hold: &mut Hold) -> io::Result<Came> {
        let length = match rustix::io::read(&self.from, hold.buffer()) {
            Ok(0) => return Ok(Came::End),
            Ok(length) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Came::Nothing),
            // A terminal says this when its last program is gone.
            Err(_) => return Ok(Came::End),
        };
        let Hold { buffer, shown, waiting } = hold;
        let read = &buffer[..length];
        let stored = match &mut self.redactor {
            None => store(read, self.stream, process, log, waiting),
            Some(redactor) => {
                shown.clear();
                let clean = redactor.pass(read, shown);
                self.release_at = (redactor.held() > 0).then(|| clock::milliseconds() + SILENCE);
                if shown.is_empty() {
                    store(clean, self.stream, process, log, waiting)
                } else {
                    shown.extend_from_slice(clean);
                    store(shown, self.stream, process, log, waiting)
                }
            }
        };
        stored?;
        hold.took(length);
        Ok(Came::Bytes)
    }

    /// Looks for these from now on, in what is held back too.
    pub fn learn(&mut self, known: &Known, process: ProcessId, log: &mut LogWriter, hold: &mut Hold) -> io::Result<()> {
        let Some(redactor) = &mut self.redactor else {
            self.redactor = Some(Box::new(Redactor::new(known.clone())));
            return Ok(());
        };
        hold.shown.clear();
        redactor.learn(known.clone(), &mut hold.shown);
        self.release_at = (redactor.held() > 0).then(|| clock::milliseconds() + SILENCE);
        store(&hold.shown, self.stream, process, log, &mut hold.waiting)
    }

    /// Nothing has come for a while, or its program has ended and others still write: what is held back is shown, unless it may be more of a
    /// value than anybody should see.
    pub fn release(&mut self, process: ProcessId, log: &mut LogWriter, hold: &mut Hold) -> io::Result<()> {
        self.release_at = None;
        let Some(redactor) = &mut self.redactor else { return Ok(()) };
        hold.shown.clear();
        redactor.release(SHOWN, &mut hold.shown);
        store(&hold.shown, self.stream, process, log, &mut hold.waiting)
    }

    /// Every writer is gone: what is held back was no value.
    pub fn finish(self, process: ProcessId, log: &mut LogWriter, hold: &mut Hold) -> io::Result<()> {
        let Some(mut redactor) = self.redactor else { return Ok(()) };
        hold.shown.clear();
        redactor.finish(&mut hold.shown);
        store(&hold.shown, self.stream, process, log, &mut hold.waiting)
    }
}

/// Stores all of it, or has the rest wait behind what waits already.
fn store(bytes: &[u8], stream: OutputStream, process: ProcessId, log: &mut LogWriter, waiting: &mut Vec<Waiting>) -> io::Result<()> {
    let mut outcome = if waiting.iter().any(|(other, ..)| *other == process) { Err(ErrorKind::StorageFull.into()) } else { Ok(()) };
    // What stands for a value may be longer than it.
    for piece in bytes.chunks(READ) {
        outcome = outcome.and_then(|()| log.append(Kind::Output(stream), clock::now(), piece));
        if outcome.is_err() {
            waiting.push((process, stream, piece.to_vec()));
        }
    }
    outcome
}

type Waiting = (ProcessId, OutputStream, Vec<u8>);

/// Where outputs are read to, and what the disk has not taken yet.
#[derive(Default)]
pub struct Hold {
    /// Empty until something is read.
    buffer: Vec<u8>,
    /// What was read, as it may be shown; only where something else was read.
    shown: Vec<u8>,
    /// In the order in which it came.
    pub waiting: Vec<Waiting>,
}

impl Hold {
    fn buffer(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = vec![0; FIRST_READ];
        }
        &mut self.buffer
    }

    /// So much was read: there is likely to be more when it filled everything.
    fn took(&mut self, length: usize) {
        if length == self.buffer.len() && length < READ {
            self.buffer = vec![0; READ];
        }
    }

    pub fn is_waiting(&self, process: ProcessId) -> bool {
        self.waiting.iter().any(|(waiting, ..)| *waiting == process)
    }

    /// Nothing is read for a while.
    pub fn rest(&mut self) {
        (self.buffer, self.shown) = Default::default();
    }
}
