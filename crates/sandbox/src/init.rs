//! The first process inside: starts processes on request, reaps, reports. It holds nothing worth having and ends with its keeper.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};

use crate::apart::{above_standard, close_all_but, end_with, reset_signals};
use crate::arguments;
use crate::error::Step;
use crate::family;
use crate::place::{StartFailure, StartStep};
use crate::plan::Errands;
use crate::secrets::Directory;
use crate::shed::shed;
use crate::spawn::{Prepared, Stack};
use crate::terminal;
use crate::wire::{Reader, Writer};

/// What an errand shows as its arguments, so that it is told apart from what commands left behind.
pub const ERRAND_NAME: &[u8] = b"errand";

pub const START: u8 = 1;
pub const SIGNAL: u8 = 2;
pub const END_FAMILY: u8 = 3;
pub const ERRAND: u8 = 4;
pub const REST: u8 = 5;
pub const SECRETS: u8 = 6;

pub const READY: u8 = 10;
pub const OUTLETS: u8 = 15;
pub const FAILED: u8 = 11;
pub const STARTED: u8 = 12;
pub const NOT_STARTED: u8 = 13;
pub const ENDED: u8 = 14;

/// Serves until the keeper is gone.
pub fn serve(socket: &OwnedFd, errands: Option<Errands>, secrets: Option<Directory>) -> io::Result<()> {
    let children = child_signals()?;
    let mut init = Init { running: HashMap::new(), unsent: VecDeque::new(), stack: Stack::new()?, errands, secrets, not_kept: None };
    loop {
        // Never waits for the keeper to read: it may be waiting for us to read.
        init.send(socket.as_fd())?;
        let write = if init.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut watched = [PollFd::new(socket, PollFlags::IN | write), PollFd::new(&children, PollFlags::IN)];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => continue,
            outcome => outcome?,
        };
        let asked = watched[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        if !watched[1].revents().is_empty() {
            drain(&children);
            init.reap();
        }
        if asked {
            let Some(message) = Reader::receive(socket.as_fd())? else { return Ok(()) };
            init.answer(message)?;
        }
    }
}

/// A descriptor that says when a child has ended.
fn child_signals() -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: a zeroed set is a valid place for sigemptyset to write to.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and initialised by the first call.
    unsafe { libc::sigemptyset(&raw mut signals) };
    // SAFETY: as above.
    unsafe { libc::sigaddset(&raw mut signals, libc::SIGCHLD) };
    // SAFETY: reads the set; changes only which signals this one thread holds back.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut()) };
    // SAFETY: reads the set and makes a new descriptor.
    let descriptor = unsafe { libc::signalfd(-1, &raw const signals, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and only we know it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Goes on in a copy of init. Whoever holds the other end of the descriptor hears nothing when there is no room for one more process.
fn run_errand(errands: Errands, descriptor: OwnedFd) {
    // SAFETY: init has one thread, and the child never comes back from here. The C library's way, because the filter knows no other.
    if unsafe { libc::fork() } == 0 {
        end_with(|| {
            let kept = [above_standard(descriptor)?];
            let _ = arguments::replace(ERRAND_NAME);
            rustix::process::setsid().map(drop).step("leave init's session")?;
            close_all_but(&kept)?;
            reset_signals();
            kept.into_iter().for_each(errands);
            Ok(0)
        });
    }
}

fn drain(descriptor: &OwnedFd) {
    let mut buffer = [0u8; 1024];
    while matches!(rustix::io::read(descriptor, &mut buffer), Ok(length) if length == buffer.len()) {}
}

struct Init {
    /// What was asked for and has not ended: its pid, and the keeper's number for it.
    running: HashMap<i32, u64>,
    unsent: VecDeque<(Writer, Option<OwnedFd>)>,
    stack: Stack,
    errands: Option<Errands>,
    secrets: Option<Directory>,
    /// Why secrets are not where they are to be: until they are, nothing starts.
    not_kept: Option<i32>,
}

impl Init {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while let Some((message, descriptor)) = self.unsent.front() {
            let descriptor = descriptor.as_ref().map(AsFd::as_fd);
            match message.send_now(socket, descriptor.as_slice()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                outcome => outcome?,
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    fn answer(&mut self, mut message: Reader) -> io::Result<()> {
        match message.kind() {
            START => {
                let id = message.number()?;
                let answer = match self.start(&mut message) {
                    Ok((pid, terminal)) => {
                        self.running.insert(pid, id);
                        (Writer::new(STARTED).number(id), terminal)
                    }
                    Err(StartFailure { step, cause }) => {
                        let cause = cause.raw_os_error().unwrap_or(libc::EIO) as u64;
                        (Writer::new(NOT_STARTED).number(id).number(step as u64).number(cause), None)
                    }
                };
                self.unsent.push_back(answer);
                Ok(())
            }
            SIGNAL => {
                let (id, signal) = (message.number()?, message.number()?);
                if let Some((pid, _)) = self.running.iter().find(|(_, known)| **known == id) {
                    // SAFETY: plain system call. The pid is a child that is not reaped yet, so it names that process; the group is its own.
                    unsafe { libc::kill(-*pid, i32::try_from(signal).unwrap_or(0)) };
                }
                Ok(())
            }
            ERRAND => {
                if let (Some(errands), Some(descriptor)) = (self.errands, message.descriptors.pop()) {
                    run_errand(errands, descriptor);
                }
                Ok(())
            }
            SECRETS => {
                let (names, contents) = (message.list()?, message.list()?);
                let files: Vec<_> = names.into_iter().zip(contents).collect();
                let kept = match &self.secrets {
                    Some(directory) => directory.replace(&files),
                    None if files.is_empty() => Ok(()),
                    None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
                };
                self.not_kept = kept.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO));
                Ok(())
            }
            REST => {
                self.stack.rest();
                shed();
                Ok(())
            }
            END_FAMILY => {
                let (id, mark) = (message.number()?, message.bytes()?);
                let first = self.running.iter().find(|(_, known)| **known == id).map(|(pid, _)| *pid);
                family::end(first, &mark);
                Ok(())
            }
            _ => Err(io::Error::from_raw_os_error(libc::EBADMSG)),
        }
    }

    fn start(&mut self, message: &mut Reader) -> Result<(i32, Option<OwnedFd>), StartFailure> {
        if let Some(why) = self.not_kept {
            return Err(StartFailure { step: StartStep::Secrets, cause: io::Error::from_raw_os_error(why) });
        }
        let garbled = |cause| StartFailure { step: StartStep::Descriptors, cause };
        let (argv, env, directory) =
            (message.list().map_err(garbled)?, message.list().map_err(garbled)?, message.bytes().map_err(garbled)?);
        let mut limits = Vec::new();
        for _ in 0..message.number().map_err(garbled)? {
            limits.push((message.number().map_err(garbled)?, message.number().map_err(garbled)?));
        }
        let (rows, columns) = (message.number().map_err(garbled)?, message.number().map_err(garbled)?);
        let descriptors = std::mem::take(&mut message.descriptors);
        let (descriptors, terminal) = if descriptors.is_empty() {
            let (keeper, [input, output, errors]) = terminal::open(rows as u16, columns as u16).map_err(garbled)?;
            ([input, output, errors], Some(keeper))
        } else {
            (descriptors.try_into().map_err(|_| garbled(io::Error::from_raw_os_error(libc::EBADMSG)))?, None)
        };
        let prepared = Prepared::new(argv, env, directory, limits, descriptors, terminal.is_some())?;
        Ok((prepared.start(&mut self.stack)?, terminal))
    }

    /// Collects all that have ended; strays that were given to us are only buried.
    fn reap(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: rusage is plain old data, and all zeroes is a value of it.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: both pointers are to values of ours that live through the call.
            let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
            if pid <= 0 {
                return;
            }
            if let Some(id) = self.running.remove(&pid) {
                let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
                let message = Writer::new(ENDED)
                    .number(id)
                    .number(u64::from(status as u32))
                    .number(microseconds(usage.ru_utime) + microseconds(usage.ru_stime))
                    .number(usage.ru_maxrss as u64)
                    .number(usage.ru_inblock as u64)
                    .number(usage.ru_oublock as u64);
                self.unsent.push_back((message, None));
            }
        }
    }
}
