//! A place from the outside: made, used, ended.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal};

use crate::error::{Error, Result, Step};
use crate::identity::{INSIDE, Identity};
use crate::init::{self, ENDED, FAILED, NOT_STARTED, READY, SIGNAL, START, STARTED};
use crate::kernel::{self, Forked};
use crate::plan::{Command, Network, Plan};
use crate::root::{self, Bound, Sources};
use crate::wire::{Reader, Writer};
use crate::{capabilities, seccomp};

/// A running place. Dropping it ends everything inside.
pub struct Place {
    pid: i32,
    pidfd: OwnedFd,
    socket: OwnedFd,
    next: u64,
    /// Ends that came while something else was waited for.
    ended: Vec<Exit>,
    directory: Vec<u8>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// As [`Place::start_process`] named it.
    pub process: u64,
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal, if one ended it.
    pub signal: Option<i32>,
    pub usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub cpu_microseconds: u64,
    pub peak_memory_kilobytes: u64,
}

impl Place {
    /// Makes a place and waits until its init answers.
    ///
    /// # Safety
    ///
    /// The calling process has one thread only: what runs inside begins as a copy of it.
    pub unsafe fn start(plan: &Plan) -> Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).step("make a pair of sockets")?;
        let identity = Identity::of_caller();
        // Only root can translate owners, and only out here; an ordinary user may clone nothing before it has namespaces of its own.
        let binds = if Identity::by_root() { Some(Sources::bound(plan, Some(identity))?) } else { None };
        // SAFETY: the caller has one thread only, as this function asks.
        match unsafe { kernel::fork_into(namespaces(plan)) }.step("make the namespaces")? {
            Forked::Child => {
                drop(ours);
                let status = match inside(plan, binds, &theirs) {
                    Ok(()) => 0,
                    Err(error) => {
                        let _ = Writer::new(FAILED).bytes(error.to_string().as_bytes()).send(theirs.as_fd(), &[]);
                        1
                    }
                };
                // SAFETY: ends this copy without running what the caller registered for its own exit.
                unsafe { libc::_exit(status) }
            }
            Forked::Parent { pid, pidfd } => {
                drop((binds, theirs));
                let place = Self {
                    pid,
                    pidfd,
                    socket: ours,
                    next: 0,
                    ended: Vec::new(),
                    directory: plan.directory.as_os_str().as_bytes().to_vec(),
                };
                identity.write_maps(pid)?;
                // The maps are there: it may go on.
                Writer::new(READY).send(place.socket.as_fd(), &[]).step("tell init to go on")?;
                place.wait_until_ready()?;
                Ok(place)
            }
        }
    }

    fn wait_until_ready(&self) -> Result<()> {
        let message = Reader::receive(self.socket.as_fd()).step("hear from init")?;
        match message {
            Some(message) if message.kind() == READY => Ok(()),
            Some(mut message) => Err(Error::Inside(String::from_utf8_lossy(&message.bytes().step("read what init says")?).into_owned())),
            None => Err(Error::Ended),
        }
    }

    /// Starts a process; its number is what [`Exit::process`] will say.
    pub fn start_process(&mut self, command: &Command, descriptors: [BorrowedFd<'_>; 3]) -> Result<u64> {
        let id = self.next;
        self.next += 1;
        let environment: Vec<Vec<u8>> =
            command.env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect();
        let directory = command.directory.as_ref().map_or(self.directory.as_slice(), |directory| directory.as_os_str().as_bytes());
        Writer::new(START)
            .number(id)
            .list(command.argv.iter().map(|argument| argument.as_bytes()))
            .list(environment.iter().map(Vec::as_slice))
            .bytes(directory)
            .send(self.socket.as_fd(), &descriptors)
            .step("ask init to start a process")?;
        loop {
            let mut message = Reader::receive(self.socket.as_fd()).step("hear from init")?.ok_or(Error::Ended)?;
            match message.kind() {
                STARTED => return Ok(id),
                NOT_STARTED => {
                    let _ = message.number().step("read what init says")?;
                    let cause = i32::try_from(message.number().step("read what init says")?).unwrap_or(libc::EIO);
                    let program = command.argv.first().map_or(OsStr::new(""), |program| program.as_os_str()).to_string_lossy().into_owned();
                    return Err(Error::Start { program, cause: io::Error::from_raw_os_error(cause) });
                }
                _ => self.note(message)?,
            }
        }
    }

    /// Waits for the next process to end.
    pub fn next_exit(&mut self) -> Result<Exit> {
        while self.ended.is_empty() {
            let message = Reader::receive(self.socket.as_fd()).step("hear from init")?.ok_or(Error::Ended)?;
            self.note(message)?;
        }
        Ok(self.ended.remove(0))
    }

    fn note(&mut self, mut message: Reader) -> Result<()> {
        if message.kind() == ENDED {
            let mut number = || message.number().step("read what init says");
            let (process, status, cpu, memory) = (number()?, number()? as i32, number()?, number()?);
            let usage = Usage { cpu_microseconds: cpu, peak_memory_kilobytes: memory };
            let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
            self.ended.push(Exit { process, code, signal, usage });
        }
        Ok(())
    }

    /// Sends a signal to a process and its group.
    pub fn signal(&self, process: u64, signal: i32) -> Result<()> {
        Writer::new(SIGNAL).number(process).number(signal as u64).send(self.socket.as_fd(), &[]).step("ask init to send a signal")
    }

    /// Ends everything inside, whatever it is doing, and waits until it is gone.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The first process of a pid namespace takes all others with it.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

fn namespaces(plan: &Plan) -> u64 {
    let network = match plan.network {
        Network::None => libc::CLONE_NEWNET,
        Network::Host => 0,
    };
    (libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP
        | network) as u64
}

/// The first process inside, from its birth to its end.
fn inside(plan: &Plan, binds: Option<Vec<Bound>>, socket: &OwnedFd) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("end with the keeper")?;
    Reader::receive(socket.as_fd()).step("wait for the maps")?.ok_or(Error::Ended)?;
    rustix::process::setsid().map(drop).step("leave the keeper's session")?;
    become_inside_user()?;
    // Changing ids clears it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("end with the keeper")?;
    rustix::system::sethostname(plan.hostname.as_bytes()).step("set the hostname")?;
    if plan.network == Network::None {
        kernel::bring_loopback_up().step("bring loopback up")?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let binds = match binds {
        Some(binds) => binds,
        None => Sources::bound(plan, None)?,
    };
    root::enter(Sources::collect(plan, binds)?)?;
    capabilities::drop_all().step("drop capabilities")?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).step("hide from others inside")?;
    close_all_but(socket)?;
    seccomp::install().step("install the filter")?;
    Writer::new(READY).send(socket.as_fd(), &[]).step("say that it is ready")?;
    init::serve(socket).step("serve")
}

fn become_inside_user() -> Result<()> {
    let (uid, gid) = (rustix::process::Uid::from_raw(INSIDE), rustix::process::Gid::from_raw(INSIDE));
    // The capabilities of the new namespaces are needed until the root is built.
    rustix::thread::set_keep_capabilities(true).step("keep capabilities for a moment")?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).step("become the inside group")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step("become the inside user")?;
    let held = rustix::thread::capabilities(None).step("read capabilities")?;
    rustix::thread::set_capabilities(None, rustix::thread::CapabilitySets { effective: held.permitted, ..held }).step("use capabilities")
}

/// Of all descriptors that came with the copy, only the socket stays.
fn close_all_but(socket: &OwnedFd) -> Result<()> {
    use std::os::fd::AsRawFd;
    let kept = socket.as_raw_fd() as libc::c_uint;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).step("open /dev/null")?;
    for standard in 0..3 {
        // SAFETY: plain system call; what was at 0 to 2 was the keeper's and nobody here uses it.
        unsafe { libc::dup2(null.as_raw_fd(), standard) };
    }
    drop(null);
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, libc::c_uint::MAX)] {
        if first <= last {
            // SAFETY: plain system call; everything in the range belongs to values that this copy never uses again.
            let outcome = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
            if outcome != 0 {
                return Err(io::Error::last_os_error()).step("close descriptors");
            }
        }
    }
    Ok(())
}
