//! The first process inside: starts processes on request, reaps, reports. It holds nothing worth having and ends with its keeper.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};

use crate::spawn::Prepared;
use crate::wire::{Reader, Writer};

pub const START: u8 = 1;
pub const SIGNAL: u8 = 2;

pub const READY: u8 = 10;
pub const FAILED: u8 = 11;
pub const STARTED: u8 = 12;
pub const NOT_STARTED: u8 = 13;
pub const ENDED: u8 = 14;

/// Serves until the keeper is gone.
pub fn serve(socket: &OwnedFd) -> io::Result<()> {
    let children = child_signals()?;
    let mut running: HashMap<i32, u64> = HashMap::new();
    loop {
        let mut watched = [PollFd::new(socket, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => continue,
            outcome => outcome?,
        };
        let (asked, ended) = (!watched[0].revents().is_empty(), !watched[1].revents().is_empty());
        if ended {
            drain(&children);
            reap(socket.as_fd(), &mut running)?;
        }
        if asked {
            let Some(message) = Reader::receive(socket.as_fd())? else { return Ok(()) };
            answer(socket.as_fd(), message, &mut running)?;
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

fn drain(descriptor: &OwnedFd) {
    let mut buffer = [0u8; 1024];
    while matches!(rustix::io::read(descriptor, &mut buffer), Ok(length) if length > 0) {}
}

fn answer(socket: BorrowedFd<'_>, mut message: Reader, running: &mut HashMap<i32, u64>) -> io::Result<()> {
    match message.kind() {
        START => {
            let id = message.number()?;
            match start(&mut message) {
                Ok(pid) => {
                    running.insert(pid, id);
                    Writer::new(STARTED).number(id).number(pid as u64).send(socket, &[])
                }
                Err(error) => {
                    Writer::new(NOT_STARTED).number(id).number(error.raw_os_error().unwrap_or(libc::EIO) as u64).send(socket, &[])
                }
            }
        }
        SIGNAL => {
            let (id, signal) = (message.number()?, message.number()?);
            if let Some((pid, _)) = running.iter().find(|(_, known)| **known == id) {
                // SAFETY: plain system call. The pid is a child that is not reaped yet, so it names that process; the group is its own.
                unsafe { libc::kill(-*pid, i32::try_from(signal).unwrap_or(0)) };
            }
            Ok(())
        }
        _ => Err(io::Error::from_raw_os_error(libc::EBADMSG)),
    }
}

fn start(message: &mut Reader) -> io::Result<i32> {
    let (argv, env, directory) = (message.list()?, message.list()?, message.bytes()?);
    let descriptors: [OwnedFd; 3] =
        std::mem::take(&mut message.descriptors).try_into().map_err(|_| io::Error::from_raw_os_error(libc::EBADMSG))?;
    Prepared::new(argv, env, directory, descriptors)?.start()
}

/// Collects all that have ended; strays that were given to us are only buried.
fn reap(socket: BorrowedFd<'_>, running: &mut HashMap<i32, u64>) -> io::Result<()> {
    loop {
        let mut status = 0;
        // SAFETY: rusage is plain old data, and all zeroes is a value of it.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to values of ours that live through the call.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if pid <= 0 {
            return Ok(());
        }
        if let Some(id) = running.remove(&pid) {
            let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
            Writer::new(ENDED)
                .number(id)
                .number(status as u32 as u64)
                .number(microseconds(usage.ru_utime) + microseconds(usage.ru_stime))
                .number(usage.ru_maxrss as u64)
                .send(socket, &[])?;
        }
    }
}
