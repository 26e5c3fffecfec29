//! One process that the steward keeps: its pipes, its log, its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{io, mem};

use rustix::io::Errno;
use stead_domain::ids::ProcessId;
use stead_domain::process::{ExitCause, OutputStream, ProcessExit};

use super::clock;
use super::followers::{Follower, Followers};
use super::stdin::Stdin;
use crate::log::{Kind, LogWriter};
use crate::protocol::Progress;
use crate::warrant::Warrant;

/// As much as a pipe can hold.
pub const PIPE: usize = 1 << 20;
/// How much is read at once: little at first, because most programs say little and fresh memory costs time, and more when that was not enough.
const FIRST_READ: usize = 4 << 10;
const READ: usize = 256 << 10;
/// Milliseconds in which several pieces of news are one.
const TOGETHER: u64 = 2;
/// How long even the first of them waits: most programs are over a moment after they have said something, and then it is told once.
const FIRST: u64 = 1;

pub struct Kept {
    pub id: ProcessId,
    /// How init calls it.
    pub number: u64,
    /// By what right it was started.
    pub warrant: Option<Warrant>,
    pub log: LogWriter,
    pub stdin: Stdin,
    /// Where its output comes from, until every writer is gone.
    outputs: Vec<(OutputStream, OwnedFd)>,
    pub terminal: bool,
    pub started: u64,
    pub state: State,
    /// What ended it, when it was us.
    pub ended_by: Option<ExitCause>,
    /// When it is to be told to end, and when it is made to.
    pub deadline: Option<u64>,
    pub last_deadline: Option<u64>,
    /// Times that the environment had run out of memory and of processes before.
    pub out_of_memory_before: u64,
    pub out_of_processes_before: u64,
    /// It began while the disk was full, and can make no file larger.
    pub may_not_write: bool,
    /// Since when somebody is to be told that it has come further.
    news: Option<u64>,
    /// When that was last told.
    told_at: u64,
    /// Those it waits for, if it is to wait for any.
    pub followers: Option<Followers>,
    closed: bool,
    /// Its log was made ready, or it was too late for that.
    has_room: bool,
}

pub enum State {
    /// Init was asked; this peer waits under this number.
    Asked {
        peer: u64,
        number: u64,
    },
    Running,
    /// It ended, and that is not written down yet, because the disk is full.
    Ended(Box<ProcessExit>),
    Over(Box<ProcessExit>),
}

impl Kept {
    pub fn new(id: ProcessId, number: u64, warrant: Option<Warrant>, log: LogWriter, stdin: Stdin, peer: u64, request: u64) -> Self {
        Self {
            id,
            number,
            warrant,
            log,
            stdin,
            outputs: Vec::new(),
            terminal: false,
            started: clock::milliseconds(),
            state: State::Asked { peer, number: request },
            ended_by: None,
            deadline: None,
            last_deadline: None,
            out_of_memory_before: 0,
            out_of_processes_before: 0,
            may_not_write: false,
            news: None,
            told_at: 0,
            followers: None,
            closed: false,
            has_room: false,
        }
    }

    pub fn reads(&mut self, stream: OutputStream, from: OwnedFd) {
        self.outputs.push((stream, from));
    }

    pub fn outputs(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.outputs.iter().enumerate().map(|(at, (_, pipe))| (at, pipe.as_fd()))
    }

    /// The descriptor of its terminal, for its size.
    pub fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.outputs.first().filter(|_| self.terminal).map(|(_, master)| master.as_fd())
    }

    pub fn runs(&self) -> bool {
        matches!(self.state, State::Asked { .. } | State::Running)
    }

    /// Nothing more will ever come of it.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Over(_)) && self.closed
    }

    pub fn progress(&self) -> Progress {
        let exit = match &self.state {
            State::Over(exit) => Some((**exit).clone()),
            _ => None,
        };
        Progress { process: self.id, end: self.log.end(), stdin: self.stdin.taken(), exit, closed: self.closed }
    }

    /// It has come further.
    pub fn has_news(&mut self) {
        self.news.get_or_insert_with(clock::milliseconds);
    }

    /// When the news are due: an end at once, everything else together after a moment, because a flood is not to drown who hears of it.
    pub fn news_due(&self) -> Option<u64> {
        let since = self.news?;
        Some(if matches!(self.state, State::Over(_)) { 0 } else { (since + FIRST).max(self.told_at + TOGETHER) })
    }

    pub fn told(&mut self, now: u64) {
        self.news = None;
        self.told_at = now;
    }

    /// Once, while a program has just begun and said nothing: that is time that nobody waits for. Whether it was.
    pub fn make_room(&mut self) -> bool {
        let begins = matches!(self.state, State::Running) && !mem::replace(&mut self.has_room, true) && self.log.end() == 0;
        if begins {
            self.log.make_room();
        }
        begins
    }

    /// Keeps what those who follow still need, and no more.
    pub fn heed_followers(&mut self, is_there: impl Fn(Follower) -> bool, now: u64) {
        if let Some(followers) = &mut self.followers {
            followers.retain(is_there, now);
            // What could not be removed now is when the log goes on.
            let _ = self.log.hold(followers.reached(now));
        }
    }

    /// Stores what has come on one output. An error says that the disk does not take it; what was read is not lost, see `hold`.
    pub fn read_output(&mut self, at: usize, hold: &mut Hold) -> io::Result<()> {
        let Some((stream, pipe)) = self.outputs.get(at) else { return Ok(()) };
        let stream = *stream;
        let mut finished = false;
        match rustix::io::read(pipe, hold.buffer()) {
            Ok(0) => finished = true,
            Ok(length) => {
                let kind = Kind::Output(stream);
                if let Err(error) = self.log.append(kind, clock::now(), &hold.buffer[..length]) {
                    hold.waiting.push((self.id, stream, hold.buffer[..length].to_vec()));
                    return Err(error);
                }
                hold.took(length);
                self.has_news();
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A terminal says this when its last program is gone.
            Err(_) => finished = true,
        }
        if finished {
            self.outputs.remove(at);
            self.close_when_done();
        }
        Ok(())
    }

    /// Stores what is there already, without waiting: what a program wrote before it ended comes before its end. A child that it left
    /// behind may go on writing, so not more than its pipes can hold.
    pub fn drain(&mut self, hold: &mut Hold) -> io::Result<()> {
        for at in (0..self.outputs.len()).rev() {
            for _ in 0..PIPE / READ * 3 {
                let before = (self.log.end(), self.outputs.len());
                self.read_output(at, hold)?;
                if (self.log.end(), self.outputs.len()) == before || self.outputs.len() < before.1 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes the end down; from here on it may be told.
    pub fn write_end(&mut self, exit: ProcessExit) -> io::Result<()> {
        if let Err(error) = self.log.exit(clock::now(), &exit) {
            self.state = State::Ended(Box::new(exit));
            return Err(error);
        }
        self.state = State::Over(Box::new(exit));
        self.stdin.close();
        self.has_news();
        self.close_when_done();
        Ok(())
    }

    fn close_when_done(&mut self) {
        if self.outputs.is_empty() && matches!(self.state, State::Over(_)) && !self.closed {
            // Only a convenience for readers: without it they ask once more.
            let _ = self.log.append(Kind::Closed, clock::now(), &[]);
            self.closed = true;
            self.has_news();
        }
    }

    /// No writer is left: the place is gone.
    pub fn forget_outputs(&mut self) {
        self.outputs.clear();
        self.close_when_done();
    }
}

/// Where outputs are read to, and what the disk has not taken yet.
pub struct Hold {
    /// Empty until something is read.
    buffer: Vec<u8>,
    pub waiting: Vec<(ProcessId, OutputStream, Vec<u8>)>,
}

impl Hold {
    pub fn new() -> Self {
        Self { buffer: Vec::new(), waiting: Vec::new() }
    }

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

    /// Nothing is read for a while.
    pub fn rest(&mut self) {
        self.buffer = Vec::new();
    }
}
