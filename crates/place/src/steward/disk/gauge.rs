//! The process that measures for a steward. To walk a tree waits for the disk, and a steward has output to take meanwhile.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, set_parent_process_death_signal, waitpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::walk;

/// What it is to look at.
pub struct Task {
    /// Trees, measured in this order.
    pub roots: Vec<PathBuf>,
    /// Init, as the host calls it.
    pub init: i32,
}

/// What it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    Tree(usize, u64),
    /// Files without a name.
    Nameless(u64),
    /// That was everything it was asked for.
    Done,
}

const NAMELESS: u64 = u64::MAX - 1;
const DONE: u64 = u64::MAX;
const REPORT: usize = 16;

pub struct Gauge {
    pid: i32,
    pidfd: OwnedFd,
    stream: UnixStream,
    heard: Vec<u8>,
}

impl Gauge {
    /// Starts it. With a user namespace it reads there what modes would keep from an ordinary user, who is the same inside.
    pub fn start(task: Task, user_namespace: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut kept = vec![OwnedFd::from(theirs)];
        kept.extend(user_namespace.map(|namespace| namespace.try_clone_to_owned()).transpose()?);
        let keeper = Pid::from_raw(std::process::id() as i32);
        let (pid, pidfd) = stead_sandbox::fork_apart(kept, |kept| match serve(&task, kept, keeper) {
            Ok(()) => 0,
            Err(_) => 1,
        })
        .map_err(io::Error::other)?;
        ours.set_nonblocking(true)?;
        Ok(Self { pid, pidfd, stream: ours, heard: Vec::new() })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Asks it to measure everything once.
    pub fn ask(&mut self) -> io::Result<()> {
        self.stream.write_all(&[0])
    }

    /// What it has said by now; an error when it is gone.
    pub fn reports(&mut self) -> io::Result<Vec<Report>> {
        let mut buffer = [0; 64 * REPORT];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.heard.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let whole = self.heard.len() / REPORT * REPORT;
        let (words, _) = self.heard[..whole].as_chunks::<8>();
        let reports = words.as_chunks::<2>().0.iter().map(|[what, bytes]| match (u64::from_ne_bytes(*what), u64::from_ne_bytes(*bytes)) {
            (DONE, _) => Report::Done,
            (NAMELESS, bytes) => Report::Nameless(bytes),
            (at, bytes) => Report::Tree(usize::try_from(at).unwrap_or(usize::MAX), bytes),
        });
        let reports = reports.collect();
        self.heard.drain(..whole);
        Ok(reports)
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

fn serve(task: &Task, kept: Vec<OwnedFd>, keeper: Option<Pid>) -> io::Result<()> {
    let mut kept = kept.into_iter();
    let mut stream = UnixStream::from(kept.next().ok_or(ErrorKind::NotFound)?);
    if let Some(namespace) = kept.next() {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
    }
    // After that, because a change of who one is takes it back.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != keeper {
        return Ok(());
    }
    let say = |mut stream: &UnixStream, what: u64, bytes: u64| {
        let mut report = [0; REPORT];
        report[..8].copy_from_slice(&what.to_ne_bytes());
        report[8..].copy_from_slice(&bytes.to_ne_bytes());
        stream.write_all(&report)
    };
    let mut asked = [0];
    while stream.read(&mut asked)? > 0 {
        for (at, root) in task.roots.iter().enumerate() {
            say(&stream, at as u64, walk::occupied(root))?;
        }
        say(&stream, NAMELESS, walk::nameless(task.init))?;
        say(&stream, DONE, 0)?;
    }
    Ok(())
}
