//! One process that the steward keeps: its pipes, its log, its end.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::{io, mem};

use stead_domain::ids::ProcessId;
use stead_domain::process::{ExitCause, OutputStream, ProcessExit};
use stead_redaction::Known;

use super::clock;
use super::followers::{Follower, Followers};
use super::output::{Came, Hold, Output, READ};
use super::stdin::Stdin;
use crate::log::{Kind, LogWriter};
use crate::protocol::Progress;
use crate::warrant::Warrant;

/// As much as a pipe can hold.
pub const PIPE: usize = 1 << 20;
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
    outputs: Vec<Output>,
    /// What is taken out of them.
    known: Option<Known>,
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
            known: None,
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
        self.outputs.push(Output::new(stream, from, self.known.as_ref()));
    }

    pub fn outputs(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.outputs.iter().enumerate().map(|(at, output)| (at, output.as_fd()))
    }

    /// The descriptor of its terminal, for its size.
    pub fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.outputs.first().filter(|_| self.terminal).map(Output::as_fd)
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

    /// Takes these out of whatever it says from now on.
    pub fn learn(&mut self, known: &Known, hold: &mut Hold) -> io::Result<()> {
        self.known = Some(known.clone());
        self.each_output(|output, id, log| output.learn(known, id, log, hold))
    }

    /// Stores what has come on one output. An error says that the disk does not take it; what was read is not lost, see `hold`.
    pub fn read_output(&mut self, at: usize, hold: &mut Hold) -> io::Result<Came> {
        let Some(output) = self.outputs.get_mut(at) else { return Ok(Came::Nothing) };
        let came = output.read(self.id, &mut self.log, hold)?;
        match came {
            Came::Nothing => {}
            Came::Bytes => self.has_news(),
            Came::End => self.end_output(at, hold)?,
        }
        Ok(came)
    }

    fn end_output(&mut self, at: usize, hold: &mut Hold) -> io::Result<()> {
        let before = self.log.end();
        let finished = self.outputs.remove(at).finish(self.id, &mut self.log, hold);
        if self.log.end() > before {
            self.has_news();
        }
        self.close_when_done(hold);
        finished
    }

    /// Stores what is there already, without waiting: what a program wrote before it ended comes before its end. A child that it left
    /// behind may go on writing, so not more than its pipes can hold.
    pub fn drain(&mut self, hold: &mut Hold) -> io::Result<()> {
        for at in (0..self.outputs.len()).rev() {
            for _ in 0..PIPE / READ * 3 {
                if self.read_output(at, hold)? != Came::Bytes {
                    break;
                }
            }
        }
        // What a child goes on with may be the rest of it.
        self.each_output(|output, id, log| output.release(id, log, hold))
    }

    /// When something that is held back is due to be shown.
    pub fn release_due(&self) -> Option<u64> {
        self.outputs.iter().filter_map(|output| output.release_at).min()
    }

    pub fn release(&mut self, now: u64, hold: &mut Hold) -> io::Result<()> {
        if self.release_due().is_none_or(|due| now < due) {
            return Ok(());
        }
        self.each_output(|output, id, log| match output.release_at {
            Some(due) if due <= now => output.release(id, log, hold),
            _ => Ok(()),
        })
    }

    /// Has each of them say something; the first error of all.
    fn each_output(&mut self, mut act: impl FnMut(&mut Output, ProcessId, &mut LogWriter) -> io::Result<()>) -> io::Result<()> {
        let before = self.log.end();
        let mut outcome = Ok(());
        for output in &mut self.outputs {
            outcome = act(output, self.id, &mut self.log).and(outcome);
        }
        if self.log.end() > before {
            self.has_news();
        }
        outcome
    }

    /// Writes the end down; from here on it may be told.
    pub fn write_end(&mut self, exit: ProcessExit, hold: &Hold) -> io::Result<()> {
        if let Err(error) = self.log.exit(clock::now(), &exit) {
            self.state = State::Ended(Box::new(exit));
            return Err(error);
        }
        self.state = State::Over(Box::new(exit));
        self.stdin.close();
        self.has_news();
        self.close_when_done(hold);
        Ok(())
    }

    /// Nothing more comes of it, and all that came is stored.
    pub fn close_when_done(&mut self, hold: &Hold) {
        if self.outputs.is_empty() && matches!(self.state, State::Over(_)) && !self.closed && !hold.is_waiting(self.id) {
            // Only a convenience for readers: without it they ask once more.
            let _ = self.log.append(Kind::Closed, clock::now(), &[]);
            self.closed = true;
            self.has_news();
        }
    }

    /// No writer is left: the place is gone.
    pub fn forget_outputs(&mut self, hold: &mut Hold) -> io::Result<()> {
        let mut outcome = Ok(());
        while let Some(last) = self.outputs.len().checked_sub(1) {
            outcome = outcome.and(self.end_output(last, hold));
        }
        self.close_when_done(hold);
        outcome
    }
}
