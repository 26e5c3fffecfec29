//! A place from the outside: made, used, ended.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal};
use rustix::thread::CapabilitySet;

use crate::apart::{self, above_standard, close_all_but, end_with, reset_signals};
use crate::cgroup::Group;
use crate::error::{Error, Result, Step};
use crate::identity::Identity;
use crate::init::{self, END_FAMILY, ENDED, ERRAND, FAILED, NOT_STARTED, OUTLETS, READY, REST, SECRETS, SIGNAL, START, STARTED};
use crate::kernel::{self, Forked};
use crate::outlets::Outlet;
use crate::plan::{Command, Network, Plan};
use crate::reserve::{self, Reserved};
use crate::root::{self, Entered, Sources, Trees};
use crate::secrets::Directory;
use crate::wire::{Reader, Writer};
use crate::{arguments, capabilities, landlock, message, seccomp};

/// A running place. Dropping it ends everything inside.
pub struct Place {
    pid: i32,
    pidfd: OwnedFd,
    socket: OwnedFd,
    outlets: Vec<(Outlet, OwnedFd)>,
    mounts: Option<OwnedFd>,
    user_namespace: Option<OwnedFd>,
    directory: Vec<u8>,
    /// Let go when everything inside is gone.
    _reserved: Vec<Reserved>,
}

/// What a process reads from and writes to.
#[derive(Clone, Copy, Debug)]
pub enum Streams<'a> {
    /// Its standard input, output and errors.
    Pipes([BorrowedFd<'a>; 3]),
    /// A new terminal of the place's own; the keeper's end comes with [`Event::Started`].
    Terminal { rows: u16, cols: u16 },
}

/// What init says.
#[derive(Debug)]
pub enum Event {
    Started {
        process: u64,
        terminal: Option<OwnedFd>,
    },
    /// Nothing ran.
    NotStarted {
        process: u64,
        failure: StartFailure,
    },
    Ended(Exit),
}

/// Why a process was not started.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {cause}")]
pub struct StartFailure {
    pub step: StartStep,
    pub cause: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StartStep {
    /// The program is missing or cannot be run, or its arguments and environment are too large.
    Program,
    /// The directory to start in is missing or closed.
    Directory,
    /// Its streams, or the terminal.
    Descriptors,
    /// No room for one more process.
    Memory,
    /// What [`Place::keep_secrets`] was given last could not be kept.
    Secrets,
}

impl std::fmt::Display for StartStep {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Program => "run the program",
            Self::Directory => "go to the directory",
            Self::Descriptors => "connect the streams",
            Self::Memory => "make a process",
            Self::Secrets => "keep the secrets",
        })
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// As [`Place::request`] was told.
    pub process: u64,
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal, if one ended it.
    pub signal: Option<i32>,
    pub usage: Usage,
}

/// What a process and those of its children that it waited for have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu_microseconds: u64,
    pub peak_memory_kilobytes: u64,
    /// Of 512 bytes, from and to storage.
    pub read_blocks: u64,
    pub written_blocks: u64,
}

impl Place {
    /// Makes a place and waits until its init answers. Refuses when the calling process has more than one thread: what runs inside begins
    /// as a copy of it.
    pub fn start(plan: &Plan) -> Result<Self> {
        Self::start_while(plan, || ()).map(|(place, ())| place)
    }

    /// The same; what the caller has to do besides is done while the place is being put together inside.
    pub fn start_while<T>(plan: &Plan, meanwhile: impl FnOnce() -> T) -> Result<(Self, T)> {
        apart::refuse_threads()?;
        if plan.network == Network::Host && !plan.allow_abstract_sockets && !landlock::keeps_abstract_sockets_apart() {
            let why = "this kernel cannot keep the abstract sockets of a shared network apart (Linux 6.12 or newer can)";
            return Err(Error::Unavailable { what: "what is reached by the host's network", why: why.to_owned() });
        }
        let (ours, theirs) = message::pair().step("make a pair of sockets")?;
        let identity = Identity::of(plan)?;
        // Only root can translate owners, and only out here; an ordinary user may clone nothing before it has namespaces of its own.
        let reserved = reserve::take(plan)?;
        let trees = if Identity::by_root() { Some(Trees::of(plan, Some(identity))?) } else { None };
        let birthplace = plan.group.as_ref().map(Group::birthplace).transpose()?.flatten();
        // SAFETY: there is one thread, as was just counted, and it is this one.
        match unsafe { kernel::fork_into(namespaces(plan), birthplace.as_ref().map(AsFd::as_fd)) }.step("make the namespaces")? {
            Forked::Child => end_with(|| {
                drop(ours);
                // They are the keeper's to let go.
                std::mem::forget(reserved);
                let socket = above_standard(theirs)?;
                if let Err(error) = inside(plan, identity, trees, &socket) {
                    let _ = Writer::new(FAILED).bytes(error.to_string().as_bytes()).send(socket.as_fd(), &[]);
                    return Ok(1);
                }
                Ok(0)
            }),
            Forked::Parent { pid, pidfd } => {
                drop((trees, theirs));
                let directory = plan.directory.as_os_str().as_bytes().to_vec();
                // Later init hides from an ordinary user.
                let layered = plan.has_layers().then(|| format!("/proc/{pid}/ns/mnt"));
                let mounts = layered.and_then(|path| std::fs::File::open(path).ok()).map(OwnedFd::from);
                let of_user = (!Identity::by_root()).then(|| std::fs::File::open(format!("/proc/{pid}/ns/user")));
                let user_namespace = of_user.and_then(std::result::Result::ok).map(OwnedFd::from);
                let mut place =
                    Self { pid, pidfd, socket: ours, outlets: Vec::new(), mounts, user_namespace, directory, _reserved: reserved };
                if let (Some(group), None) = (&plan.group, birthplace) {
                    group.attach(pid)?;
                }
                identity.write_maps(pid)?;
                // The maps are there: it may go on.
                Writer::new(READY).send(place.socket.as_fd(), &[]).step("tell init to go on")?;
                let done = meanwhile();
                place.wait_until_ready(plan)?;
                Ok((place, done))
            }
        }
    }

    fn wait_until_ready(&mut self, plan: &Plan) -> Result<()> {
        let mut message = Reader::receive(self.socket.as_fd()).step("hear from init")?;
        if let (Some(outlets), Network::Own(wanted)) = (message.as_mut().filter(|message| message.kind() == OUTLETS), &plan.network) {
            self.outlets = wanted.list().into_iter().zip(std::mem::take(&mut outlets.descriptors)).collect();
            message = Reader::receive(self.socket.as_fd()).step("hear from init")?;
        }
        match message {
            Some(message) if message.kind() == READY => Ok(()),
            Some(mut message) => Err(Error::Inside(String::from_utf8_lossy(&message.bytes().step("read what init says")?).into_owned())),
            None => Err(Error::Ended),
        }
    }

    /// The other ends of the ways out of its network, made inside.
    pub fn outlets(&self) -> &[(Outlet, OwnedFd)] {
        &self.outlets
    }

    /// For polling: readable when [`Place::receive`] has something to say.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Stands for init, and with it for everything inside.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Of init, on the outside.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its user namespace, where an ordinary user made it: whoever joins it may read what modes would keep from that user. Root needs none.
    pub fn user_namespace(&self) -> Option<BorrowedFd<'_>> {
        self.user_namespace.as_ref().map(AsFd::as_fd)
    }

    /// Asks init to start a process under the caller's number. The answer comes as an event.
    pub fn request(&mut self, process: u64, command: &Command, streams: Streams<'_>) -> Result<()> {
        let environment: Vec<Vec<u8>> =
            command.env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect();
        let directory = command.directory.as_ref().map_or(self.directory.as_slice(), |directory| directory.as_os_str().as_bytes());
        let mut message = Writer::new(START)
            .number(process)
            .list(command.argv.iter().map(|argument| argument.as_bytes()))
            .list(environment.iter().map(Vec::as_slice))
            .bytes(directory)
            .number(command.limits.len() as u64);
        for (limit, bound) in &command.limits {
            message = message.number(limit.resource()).number(*bound);
        }
        match &streams {
            Streams::Pipes(descriptors) => message.number(0).number(0).send(self.socket.as_fd(), descriptors),
            Streams::Terminal { rows, cols } => message.number(u64::from(*rows)).number(u64::from(*cols)).send(self.socket.as_fd(), &[]),
        }
        .map_err(|error| ended_or(error, "ask init to start a process"))
    }

    /// Has the plan's directory for secrets hold these files, readable by their owner alone, and nothing else. A process that is asked for later
    /// begins with them, or not at all.
    pub fn keep_secrets(&mut self, files: &[(&str, &[u8])]) -> Result<()> {
        Writer::new(SECRETS)
            .list(files.iter().map(|(name, _)| name.as_bytes()))
            .list(files.iter().map(|(_, bytes)| *bytes))
            .send(self.socket.as_fd(), &[])
            .map_err(|error| ended_or(error, "ask init to keep secrets"))
    }

    /// The next thing that init says; never waits: none when there is nothing now. [`Error::Ended`] when init is gone.
    pub fn receive(&mut self) -> Result<Option<Event>> {
        match Reader::receive_now(self.socket.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            outcome => {
                let message = outcome.step("hear from init")?.ok_or(Error::Ended)?;
                event(message).map(Some).step("read what init says")
            }
        }
    }

    /// Sends a signal to a process and its group.
    pub fn signal(&self, process: u64, signal: i32) -> Result<()> {
        Writer::new(SIGNAL)
            .number(process)
            .number(signal as u64)
            .send(self.socket.as_fd(), &[])
            .map_err(|error| ended_or(error, "ask init to send a signal"))
    }

    /// Ends a process, its children, theirs, and whoever left it with this variable among its own (`NAME=value`). It may be over itself.
    pub fn end_family(&self, process: u64, mark: &[u8]) -> Result<()> {
        Writer::new(END_FAMILY)
            .number(process)
            .bytes(mark)
            .send(self.socket.as_fd(), &[])
            .map_err(|error| ended_or(error, "ask init to end a family"))
    }

    /// Runs [`Plan::errands`] inside with this descriptor, in a process that no other process inside can look into. Nothing is said of how it
    /// goes: whoever has the other end sees that, or its end.
    pub fn errand(&self, descriptor: BorrowedFd<'_>) -> Result<()> {
        Writer::new(ERRAND).send(self.socket.as_fd(), &[descriptor]).map_err(|error| ended_or(error, "ask init to run an errand"))
    }

    /// Nothing has happened for a while: init keeps less memory until something does. Whoever calls this should [`crate::shed()`] too.
    pub fn rest(&self) -> Result<()> {
        Writer::new(REST).send(self.socket.as_fd(), &[]).map_err(|error| ended_or(error, "tell init to rest"))
    }

    /// Ends everything inside, whatever it is doing, and waits until it is gone.
    pub fn end(self) {
        drop(self);
    }

    /// Holds the mounts of the place, also after its end. With the last holder they go, and where layers are to survive the host that waits
    /// for the disk: so that the end of a place need not, somebody else can let go of them. None where there are none, or where the
    /// kernel does not let us.
    pub fn hold_mounts(&self) -> Option<OwnedFd> {
        self.mounts.as_ref().and_then(|mounts| mounts.try_clone().ok())
    }
}

fn ended_or(cause: io::Error, step: &str) -> Error {
    match cause.raw_os_error() {
        Some(libc::EPIPE | libc::ECONNRESET) => Error::Ended,
        _ => Error::Outside { step: step.to_owned(), cause },
    }
}

fn event(mut message: Reader) -> io::Result<Event> {
    let process = message.number()?;
    match message.kind() {
        STARTED => Ok(Event::Started { process, terminal: message.descriptors.pop() }),
        NOT_STARTED => {
            let step = match message.number()? {
                0 => StartStep::Program,
                1 => StartStep::Directory,
                2 => StartStep::Descriptors,
                4 => StartStep::Secrets,
                _ => StartStep::Memory,
            };
            let cause = io::Error::from_raw_os_error(i32::try_from(message.number()?).unwrap_or(libc::EIO));
            Ok(Event::NotStarted { process, failure: StartFailure { step, cause } })
        }
        ENDED => {
            let status = message.number()? as i32;
            let usage = Usage {
                cpu_microseconds: message.number()?,
                peak_memory_kilobytes: message.number()?,
                read_blocks: message.number()?,
                written_blocks: message.number()?,
            };
            let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
            Ok(Event::Ended(Exit { process, code, signal, usage }))
        }
        _ => Err(io::Error::from_raw_os_error(libc::EBADMSG)),
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
        Network::None | Network::Own(_) => libc::CLONE_NEWNET,
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
fn inside(plan: &Plan, identity: Identity, trees: Option<Trees>, socket: &OwnedFd) -> Result<()> {
    reset_signals();
    // They name directories of the host.
    arguments::replace(b"init").step("hide the keeper's arguments")?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("end with the keeper")?;
    Reader::receive(socket.as_fd()).step("wait for the maps")?.ok_or(Error::Ended)?;
    rustix::process::setsid().map(drop).step("leave the keeper's session")?;
    let device = if let Network::Own(outlets) = &plan.network { outlets.open()? } else { None };
    become_inside_user(identity, trees.is_some())?;
    // Changing ids clears it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("end with the keeper")?;
    rustix::system::sethostname(plan.hostname.as_bytes()).step("set the hostname")?;
    if plan.network != Network::Host {
        kernel::bring_loopback_up().step("bring loopback up")?;
    }
    if let Network::Own(outlets) = &plan.network {
        let made = outlets.make(device)?;
        let descriptors: Vec<_> = made.iter().map(AsFd::as_fd).collect();
        Writer::new(OUTLETS).send(socket.as_fd(), &descriptors).step("hand the ways out over")?;
    }
    // Nothing of the inside is handed to what the host does with crashes. A limit of nothing keeps files away, but not a handler that gets
    // them by a pipe: the kernel leaves that one alone only where the limit is one byte.
    let no_core = rustix::process::Rlimit { current: Some(1), maximum: Some(1) };
    rustix::process::setrlimit(rustix::process::Resource::Core, no_core).step("forbid core dumps")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let trees = match trees {
        Some(trees) => trees,
        None => Trees::of(plan, None)?,
    };
    let Entered { writable, secrets } = root::enter(plan, Sources::collect(plan, trees)?)?;
    let kept = if plan.system { capabilities::OF_SYSTEM } else { CapabilitySet::empty() };
    capabilities::drop_all_but(kept).step("drop capabilities")?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).step("hide from others inside")?;
    landlock::restrict(&writable.iter().map(String::as_str).collect::<Vec<_>>()).step("restrict where is written")?;
    let secrets = secrets.map(Directory::above_standard).transpose()?;
    let kept: Vec<BorrowedFd<'_>> = std::iter::once(socket.as_fd()).chain(secrets.as_ref().map(AsFd::as_fd)).collect();
    close_all_but(&kept)?;
    seccomp::install(seccomp::Allowed { system: plan.system, ptrace: plan.allow_ptrace }).step("install the filter")?;
    Writer::new(READY).send(socket.as_fd(), &[]).step("say that it is ready")?;
    init::serve(socket, plan.errands, secrets).step("serve")
}

fn become_inside_user(identity: Identity, by_root: bool) -> Result<()> {
    let (uid, gid) = (rustix::process::Uid::from_raw(identity.inside), rustix::process::Gid::from_raw(identity.inside));
    if by_root {
        // An ordinary user may not leave its groups.
        rustix::thread::set_thread_groups(&[]).step("leave the keeper's groups")?;
    }
    // The capabilities of the new namespaces are needed until the root is built.
    rustix::thread::set_keep_capabilities(true).step("keep capabilities for a moment")?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).step("become the inside group")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step("become the inside user")?;
    let held = rustix::thread::capabilities(None).step("read capabilities")?;
    rustix::thread::set_capabilities(None, rustix::thread::CapabilitySets { effective: held.permitted, ..held }).step("use capabilities")
}
