//! What a server may ask of a steward.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use stead_domain::ids::ProcessId;
use stead_domain::process::OutputStream;
use stead_sandbox::{Command, Limit, Streams};

use super::disk::Disk;
use super::followers::{Follower, Followers};
use super::kept::{Kept, PIPE};
use super::stdin::Stdin;
use super::{GRACE, Leaving, Steward, clock};
use crate::blueprint::Blueprint;
use crate::log::{self, Caps, LogWriter};
use crate::protocol::{Answer, Call, Refusal, Request, Start};
use crate::warrant::Warrant;

/// Tells a program which process it belongs to, and us who belongs to it.
const MARK: &str = "STEAD_PROCESS";

/// What everything that a process starts has among its variables.
pub fn mark(process: ProcessId) -> Vec<u8> {
    format!("{MARK}={process}").into_bytes()
}

impl Steward {
    pub(super) fn call(&mut self, peer: u64, request: Request, bytes: &[u8]) {
        let number = request.number;
        let Some(request) = self.hold_back(peer, request, bytes) else { return };
        let answered = match request.call {
            Call::Hello { .. } => Ok(Some(self.hello())),
            Call::Start(start) => self.start(peer, number, &start),
            Call::Stdin { process, warrant, offset, end } => {
                self.admit(warrant).and_then(|()| self.stdin(process, offset, bytes, end)).map(Some)
            }
            Call::Signal { process, warrant, signal } => self.admit(warrant).and_then(|()| self.signal(process, signal)).map(Some),
            Call::Resize { process, warrant, size } => self.admit(warrant).and_then(|()| self.resize(process, size)).map(Some),
            Call::Follow { process, follower, offset } => self.follow(process, (peer, follower), offset).map(Some),
            Call::Unfollow { process, follower } => self.unfollow(process, (peer, follower)).map(Some),
            Call::Activity => Ok(Some(self.activity())),
            Call::Sleep { at_once } => {
                self.sleep(peer, number, at_once);
                Ok(None)
            }
            Call::Barrier { warrant, stop } => self.barrier(peer, number, warrant, stop),
            Call::Adopt { blueprint } => self.adopt(*blueprint).map(Some),
            Call::Errand { warrant, writes } => self.errand(peer, warrant, writes).map(|()| None),
            Call::Freeze { at_most_milliseconds } => self.freeze(peer, number, at_most_milliseconds),
            Call::Thaw => self.thaw(peer).map(Some),
            Call::Learn { known } => self.learn(&known).map(|()| Some(Answer::Done)),
        };
        match answered {
            Ok(None) => {}
            Ok(Some(answer)) => self.answer(peer, number, answer),
            Err(refusal) => self.answer(peer, number, Answer::Refused(refusal)),
        }
    }

    fn hello(&self) -> Answer {
        let processes = self.processes.values().map(Kept::progress).collect();
        let Blueprint { environment, spec_version, .. } = self.blueprint;
        Answer::Hello { protocol: self.protocol, pid: std::process::id(), environment, spec_version, processes }
    }

    /// Hands the stream to a process inside. From then on that one answers.
    fn errand(&mut self, peer: u64, warrant: Option<Warrant>, writes: bool) -> Result<(), Refusal> {
        self.admit(warrant)?;
        if self.leaving.is_some() || self.inside.is_over() {
            return Err(Refusal::Leaving);
        }
        if let Some(disk) = &mut self.disk {
            if writes && disk.is_full() {
                return Err(Refusal::StorageFull { message: "the environment occupies more than its own `disk_mb`".to_owned() });
            }
            disk.begins_errand(clock::milliseconds());
        }
        let failed = |error: String| Refusal::Failed { message: error };
        let place = self.inside.place().map_err(|error| failed(error.to_string()))?;
        if let Some(peer) = self.peers.remove(&peer) {
            let stream = peer.into_stream().map_err(|error| failed(error.to_string()))?;
            self.errands.hand(&stream, warrant.is_some()).map_err(|error| failed(error.to_string()))?;
            place.errand(stream.as_fd()).map_err(|error| failed(error.to_string()))?;
            self.hear_of(warrant);
        }
        Ok(())
    }

    /// Asks init for a process; the answer comes when init has spoken.
    fn start(&mut self, peer: u64, number: u64, start: &Start) -> Result<Option<Answer>, Refusal> {
        if self.processes.contains_key(&start.process) {
            return Ok(Some(Answer::Done));
        }
        if let Err(fenced) = self.admit(start.warrant) {
            // What ran once never runs again, and that can be told whoever asks.
            let ran = log::trace(&self.blueprint.logs, start.process).unwrap_or(false);
            return if ran { Ok(Some(Answer::Known)) } else { Err(fenced) };
        }
        if self.leaving.is_some() || self.inside.is_over() {
            return Err(Refusal::Leaving);
        }
        if let Some(secrets) = &start.secrets {
            self.learn(&secrets.known)?;
        }
        self.deliver(start.secrets.as_deref())?;
        // A trace is there before the process is: whoever asks again after a crash in between finds it, and it never begins twice.
        let full = |error: io::Error| Refusal::StorageFull { message: error.to_string() };
        let noted = match &mut self.starts {
            Some(starts) if starts.knows(start.process) || log::trace(&self.blueprint.logs, start.process).map_err(full)? => {
                return Ok(Some(Answer::Known));
            }
            Some(starts) => starts.note(start.process).is_ok(),
            None => false,
        };
        let log = if noted {
            None
        } else {
            match LogWriter::create_from(self.spare.take(), &self.blueprint.logs, start.process, Caps::of(start.log_bytes)) {
                // It was started before, and is over.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Some(Answer::Known)),
                outcome => Some(outcome.map_err(full)?),
            }
        };
        if let Err(error) = self.ask(peer, number, start, log) {
            let _ = log::remove(&self.blueprint.logs, start.process);
            return Err(error);
        }
        self.hear_of(start.warrant);
        Ok(None)
    }

    fn ask(&mut self, peer: u64, request: u64, start: &Start, log: Option<LogWriter>) -> Result<(), Refusal> {
        let failed = |error: io::Error| Refusal::Failed { message: error.to_string() };
        let number = self.next_number;
        self.next_number += 1;
        let events = self.inside.events();
        let full = self.disk.as_mut().is_some_and(Disk::is_full);
        let command = self.command(start, full);
        let place = self.inside.place().map_err(failed)?;
        let broken = |error: stead_sandbox::Error| Refusal::Failed { message: error.to_string() };
        let mut pipes = Vec::new();
        let mut stdin = Stdin::new(None, start.terminal.is_some());
        if let Some(size) = start.terminal {
            place.request(number, &command, Streams::Terminal { rows: size.rows, cols: size.cols }).map_err(broken)?;
        } else {
            let (their_stdin, our_stdin) = input(start.stdin_open).map_err(failed)?;
            let (stdout, their_stdout) = output().map_err(failed)?;
            let (stderr, their_stderr) = output().map_err(failed)?;
            let theirs = [their_stdin.as_fd(), their_stdout.as_fd(), their_stderr.as_fd()];
            place.request(number, &command, Streams::Pipes(theirs)).map_err(broken)?;
            stdin = Stdin::new(our_stdin, false);
            pipes = vec![(OutputStream::Stdout, stdout), (OutputStream::Stderr, stderr)];
        }
        let log = match log {
            Some(log) => log,
            // While the program is being started.
            None => LogWriter::create_from(self.spare.take(), &self.blueprint.logs, start.process, Caps::of(start.log_bytes)).map_err(
                |error| {
                    // Nobody would keep what it says.
                    let _ = place.end_family(number, &mark(start.process));
                    Refusal::StorageFull { message: error.to_string() }
                },
            )?,
        };
        let mut kept = Kept::new(start.process, number, start.warrant, log, stdin, peer, request);
        kept.terminal = start.terminal.is_some();
        kept.may_not_write = full;
        kept.followers = (start.hold && self.protocol >= 2).then(|| Followers::expected(kept.started));
        kept.heed_followers(|_| true, kept.started);
        if let Some(known) = self.redaction.known() {
            // It has no output yet, so there is nothing to store.
            let _ = kept.learn(known, &mut self.hold);
        }
        pipes.into_iter().for_each(|(stream, pipe)| kept.reads(stream, pipe));
        kept.out_of_memory_before = events.out_of_memory;
        kept.out_of_processes_before = events.out_of_processes;
        kept.deadline = start.timeout_milliseconds.map(|milliseconds| kept.started.saturating_add(milliseconds));
        self.processes.insert(start.process, kept);
        if let Some(disk) = &mut self.disk {
            disk.begins(clock::milliseconds());
        }
        Ok(())
    }

    fn command(&self, start: &Start, full: bool) -> Command {
        let workspace = &self.blueprint.workspace.path;
        let directory = start.cwd.as_ref().map(|directory| workspace.join(Path::new(directory)));
        let mut env = self.blueprint.env.clone();
        env.push((MARK.to_owned(), start.process.to_string()));
        if start.terminal.is_some() {
            env.push(("TERM".to_owned(), "xterm-256color".to_owned()));
        }
        for (name, value) in &start.env {
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), value.clone()));
        }
        let limits = [
            (Limit::CpuSeconds, start.limits.cpu_seconds),
            // What is there can still be removed, and that is what helps.
            (Limit::FileSize, if full { Some(0) } else { start.limits.file_size_mb.map(|size| size.saturating_mul(1 << 20)) }),
            (Limit::OpenFiles, start.limits.open_files),
        ];
        Command {
            argv: start.argv.iter().map(Into::into).collect(),
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            directory,
            limits: limits.into_iter().filter_map(|(limit, value)| value.map(|value| (limit, value))).collect(),
        }
    }

    fn stdin(&mut self, process: ProcessId, offset: u64, bytes: &[u8], end: bool) -> Result<Answer, Refusal> {
        let kept = self.processes.get_mut(&process).ok_or(Refusal::NoProcess)?;
        let offset = kept.stdin.take(offset, bytes, end)?;
        Ok(Answer::Written { offset })
    }

    fn signal(&mut self, process: ProcessId, signal: i32) -> Result<Answer, Refusal> {
        let kept = self.processes.get(&process).ok_or(Refusal::NoProcess)?;
        if !kept.runs() {
            return Err(Refusal::Over);
        }
        let number = kept.number;
        let place = self.inside.place().map_err(|_| Refusal::Over)?;
        place.signal(number, signal).map_err(|error| Refusal::Failed { message: error.to_string() })?;
        Ok(Answer::Done)
    }

    fn resize(&mut self, process: ProcessId, size: stead_domain::process::TerminalSize) -> Result<Answer, Refusal> {
        let kept = self.processes.get(&process).ok_or(Refusal::NoProcess)?;
        let terminal = kept.terminal().ok_or(if kept.terminal { Refusal::Over } else { Refusal::NoTerminal })?;
        let size = rustix::termios::Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(terminal, size).map_err(|error| Refusal::Failed { message: error.to_string() })?;
        Ok(Answer::Done)
    }

    /// Of a process that waits for nobody it makes no difference.
    fn follow(&mut self, process: ProcessId, follower: Follower, offset: u64) -> Result<Answer, Refusal> {
        let kept = self.processes.get_mut(&process).ok_or(Refusal::NoProcess)?;
        kept.followers.iter_mut().for_each(|followers| followers.follows(follower, offset));
        Ok(Answer::Done)
    }

    fn unfollow(&mut self, process: ProcessId, follower: Follower) -> Result<Answer, Refusal> {
        let kept = self.processes.get_mut(&process).ok_or(Refusal::NoProcess)?;
        kept.heed_followers(|known| known != follower, clock::milliseconds());
        Ok(Answer::Done)
    }

    fn activity(&mut self) -> Answer {
        let usage = self.inside.usage();
        let processes = self.processes.values().filter(|kept| kept.runs()).count();
        let background = self.inside.strays(processes, self.errands.under_way());
        let processes = processes as u64;
        Answer::Activity { processes, background, cpu_milliseconds: usage.cpu_milliseconds, memory_bytes: usage.memory_bytes }
    }

    fn sleep(&mut self, peer: u64, number: u64, at_once: bool) {
        if !at_once {
            // To be told to end they have to hear it. At once they end as they stand.
            self.go_on();
        }
        let now = clock::milliseconds();
        let deadline = if at_once { now } else { now + GRACE.as_millis() as u64 };
        match &mut self.leaving {
            Some(leaving) => {
                leaving.asked_by.push((peer, number));
                leaving.deadline = leaving.deadline.min(deadline);
            }
            None => {
                self.leaving = Some(Leaving { asked_by: vec![(peer, number)], deadline });
                let running: Vec<u64> = self.processes.values().filter(|kept| kept.runs()).map(|kept| kept.number).collect();
                if let Ok(place) = self.inside.place() {
                    for number in running {
                        let _ = place.signal(number, rustix::process::Signal::TERM.as_raw());
                    }
                }
            }
        }
    }
}

/// What a program reads, and our end of it if it is to be fed.
fn input(open: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    if !open {
        return Ok((rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, None));
    }
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((theirs, Some(ours)))
}

/// A pipe that a program writes and we read without waiting.
fn output() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    // A larger one lets a fast writer run on; past the user's allowance it stays as it is.
    let _ = fcntl_setpipe_size(&ours, PIPE);
    Ok((ours, theirs))
}
