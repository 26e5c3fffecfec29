//! What Stead needs of whoever runs processes in an environment. A provider whose sandboxes can run something has a [`Place`].

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use stead_domain::archive;
use stead_domain::changes::{FileChange, RelativePath};
use stead_domain::checkpoint::Stack;
use stead_domain::definition::Spec;
use stead_domain::egress::EgressEntry;
use stead_domain::files::{FileOrder, FileWord};
use stead_domain::ids::{EnvironmentId, LeaseId, ProcessId, SandboxId};
use stead_domain::ports::ListeningPort;
use stead_domain::process::{OutputStream, ProcessExit, ProcessLimits, TerminalSize};
use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error, Timestamp};
use tokio::net::TcpStream;

use crate::secrets::{Authority, Delivery};

/// Where processes run. Calls may be repeated: a start under an id that was started before finds that process, a write to stdin under an
/// offset that was written before writes nothing. Dropping a future of it harms nothing.
#[async_trait]
pub trait Place: Send + Sync {
    /// Starts a process and wakes the environment for it if need be. When it returns, the program runs.
    async fn start(&self, environment: &Premises, process: &StartProcess) -> Result<(), PlaceError>;

    /// How far a process has come; of one that nobody keeps any more, from what was written down. None: there is no trace of it.
    async fn progress(&self, environment: EnvironmentId, process: ProcessId) -> Result<Option<Progress>, PlaceError>;

    /// Waits until a process has come further than `seen`, and says how far.
    async fn further(&self, environment: EnvironmentId, process: ProcessId, seen: &Progress) -> Result<Progress, PlaceError>;

    /// Output from an offset on, at most about so many bytes; `near` is what the reading before was answered with. What is answered is never
    /// empty unless nothing is there yet.
    async fn read(
        &self,
        environment: EnvironmentId,
        process: ProcessId,
        from: u64,
        near: Option<Mark>,
        stream: Option<OutputStream>,
        at_most: usize,
    ) -> Result<Output, PlaceError>;

    /// Says that somebody follows and has taken what lies before the offset: a process that was started to wait for them does, until what is
    /// answered is dropped. None when there is nobody to say it to.
    async fn follow(
        &self,
        _environment: EnvironmentId,
        _process: ProcessId,
        _offset: u64,
    ) -> Result<Option<Box<dyn Follower>>, PlaceError> {
        Ok(None)
    }

    /// Writes to stdin what lies at `offset`; `end` closes it after that. Answers how far stdin has been written.
    async fn write_stdin(
        &self,
        environment: EnvironmentId,
        process: ProcessId,
        warrant: Warrant,
        offset: u64,
        bytes: &[u8],
        end: bool,
    ) -> Result<u64, PlaceError>;

    /// Sends a signal to the process and its group. Without a warrant it is the server's own doing, and always heard.
    async fn signal(&self, environment: EnvironmentId, process: ProcessId, warrant: Option<Warrant>, signal: i32)
    -> Result<(), PlaceError>;

    async fn resize(&self, environment: EnvironmentId, process: ProcessId, warrant: Warrant, size: TerminalSize) -> Result<(), PlaceError>;

    /// From when this returns, nothing is begun in the sandbox under a warrant before this one, whoever comes and whatever is killed: it is
    /// written down. With `stop` everything that ran under an earlier one is gone with all that it started; without, what a holder took over
    /// goes on. The same warrant once more only makes sure of that. [`PlaceError::Stale`] when a later one was seen, or somebody else's.
    async fn barrier(&self, barrier: &Barrier) -> Result<(), PlaceError>;

    /// Ends whoever keeps an environment and does not answer, with everything inside, and returns when all of it is surely gone.
    async fn end_by_force(&self, _environment: EnvironmentId) -> Result<(), PlaceError> {
        Err(PlaceError::Unsupported("it cannot end what does not answer"))
    }

    /// Makes it ready for a command without one. Does nothing when it is awake.
    async fn wake(&self, environment: &Premises) -> Result<(), PlaceError>;

    /// The definition is another one now. What may leave an environment that is awake is held to it at once; everything else waits until it
    /// wakes anew. Does nothing when it is asleep.
    async fn definition_changed(&self, _environment: &Premises) -> Result<(), PlaceError> {
        Ok(())
    }

    /// Ends everything that runs inside, by `TERM` and a grace period or at once, and leaves neither process nor mount behind. Does nothing when it is asleep.
    async fn sleep(&self, environment: EnvironmentId, at_once: bool) -> Result<(), PlaceError>;

    /// Has everything in an environment stand still until what is answered is thawed or dropped, or for so long; none when it is asleep.
    async fn freeze(&self, _environment: EnvironmentId, _at_most: Duration) -> Result<Option<Box<dyn Still>>, PlaceError> {
        Err(PlaceError::NeedsStop("this provider can make nothing stand still".to_owned()))
    }

    /// From when this returns, these values are taken out of whatever is said in an environment, and replaced by what stands before each. Does
    /// nothing when it is asleep: nobody is there to say it.
    async fn learn(&self, _environment: EnvironmentId, _known: &[(String, SecretValue)]) -> Result<(), PlaceError> {
        Ok(())
    }

    /// What an environment is doing now; none when it is asleep.
    async fn activity(&self, environment: EnvironmentId) -> Result<Option<Activity>, PlaceError>;

    /// Whether whoever keeps it is of another version, takes nothing new, and ends with its last process.
    async fn is_draining(&self, _environment: EnvironmentId) -> Result<bool, PlaceError> {
        Ok(false)
    }

    /// Every process that runs now, in whatever environment, so that those without a record are found; none when the place cannot tell.
    async fn running(&self) -> Result<Vec<(EnvironmentId, ProcessId)>, PlaceError> {
        Ok(Vec::new())
    }

    /// Removes the output of a process that is over, or of all processes of an environment that is gone.
    async fn forget(&self, environment: EnvironmentId, process: Option<ProcessId>) -> Result<(), PlaceError>;

    /// How much is stored of the output of each process, in whatever environment; nothing when the place does not know.
    async fn stored_output(&self) -> Result<Vec<(EnvironmentId, ProcessId, u64)>, PlaceError> {
        Ok(Vec::new())
    }

    /// Has something done to files by a process inside, under the environment's own limits; wakes it if need be. Who only
    /// reads needs no warrant.
    async fn errand(&self, _environment: &Premises, _warrant: Option<Warrant>, _order: &FileOrder) -> Result<Box<dyn Errand>, PlaceError> {
        Err(PlaceError::Unsupported("it does not reach the files of its environments"))
    }

    /// What listens inside; none when it is asleep. Nobody is woken.
    async fn listening(&self, _environment: &Premises) -> Result<Option<Vec<ListeningPort>>, PlaceError> {
        Err(PlaceError::Unsupported("it does not reach the ports of its environments"))
    }

    /// A connection to what listens on a port inside, and to nothing else. Nobody is woken.
    async fn connect(&self, _environment: &Premises, _port: u16) -> Result<TcpStream, PlaceError> {
        Err(PlaceError::Unsupported("it does not reach the ports of its environments"))
    }

    /// What left the environment or wanted to, oldest first.
    async fn egress(&self, _environment: EnvironmentId, _start: &EgressStart, _limit: usize) -> Result<EgressPiece, PlaceError> {
        Err(PlaceError::Unsupported("it writes down nothing of what leaves an environment"))
    }

    /// What was written beside the workspace, in the order of the paths: at most `limit` after the first `skip`, only what `below` holds.
    async fn changes(
        &self,
        _environment: &Premises,
        _below: Option<&RelativePath>,
        _skip: u64,
        _limit: usize,
    ) -> Result<Vec<FileChange>, PlaceError> {
        Err(PlaceError::Unsupported("it keeps no changes apart from the workspace"))
    }

    /// Carries changes into the workspace, all or those that `paths` hold, and forgets them. Only while the environment sleeps. It may be
    /// cut off anywhere and repeated.
    async fn keep_changes(&self, _environment: &Premises, _paths: Option<&[RelativePath]>) -> Result<u64, PlaceError> {
        Err(PlaceError::Unsupported("it keeps no changes apart from the workspace"))
    }

    /// Throws changes away, all or those that `paths` hold. Only while the environment sleeps.
    async fn drop_changes(&self, _environment: &Premises, _paths: Option<&[RelativePath]>) -> Result<u64, PlaceError> {
        Err(PlaceError::Unsupported("it keeps no changes apart from the workspace"))
    }
}

/// Something that is being done inside. Dropping it ends it. What is heard is from where anything may run.
#[async_trait]
pub trait Errand: Send {
    async fn send(&mut self, bytes: &[u8]) -> Result<(), PlaceError>;
    /// Nothing more is sent.
    async fn end(&mut self) -> Result<(), PlaceError>;
    /// The next word, with the bytes that it carries.
    async fn next(&mut self) -> Result<(FileWord, bytes::Bytes), PlaceError>;
}

/// Everything in an environment stands still.
#[async_trait]
pub trait Still: Send {
    /// It goes on. An error when it did not stand still all the time.
    async fn thaw(self: Box<Self>) -> Result<(), PlaceError>;
}

/// Somebody who follows the output of a process, for as long as this is there.
pub trait Follower: Send + Sync {
    /// It has taken what lies before the offset. False when that is no longer heard, and has to be said anew.
    fn reached(&self, offset: u64) -> bool;
}

/// The environment that something is to happen in.
#[derive(Clone, Debug)]
pub struct Premises {
    pub environment: EnvironmentId,
    pub sandbox: SandboxId,
    /// What the sandbox sees of its files.
    pub stack: Stack,
    /// For people: the hostname inside follows from it.
    pub name: String,
    pub spec: Spec,
    pub spec_version: u64,
    /// What the environment's own certificate authority is made of, where secrets are brokered for it.
    pub authority: Option<Authority>,
    /// What cannot be held may be left out. Otherwise it is not to be made at all.
    pub allow_unenforced: bool,
}

/// By what right something is done in a sandbox: the fence of whoever holds it, and which lease that is. A store that came back from a backup
/// may give the same fence to somebody else; the lease tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warrant {
    pub fence: u64,
    /// None where nobody holds it alone.
    pub lease: Option<LeaseId>,
}

/// The end of everything that has an earlier warrant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    pub sandbox: SandboxId,
    /// All that use the sandbox, or did.
    pub environments: Vec<EnvironmentId>,
    pub warrant: Warrant,
    pub stop: bool,
}

#[derive(Clone)]
pub struct StartProcess {
    pub id: ProcessId,
    pub argv: Vec<String>,
    /// Inside; a relative one starts at the workspace, none is the workspace.
    pub cwd: Option<String>,
    /// On top of the definition's and the place's own.
    pub env: Vec<(String, String)>,
    pub stdin_open: bool,
    pub terminal: Option<TerminalSize>,
    pub timeout: Option<Duration>,
    pub limits: ProcessLimits,
    pub warrant: Warrant,
    /// Nothing of its output is given up before those who follow it have taken it.
    pub hold: bool,
    pub secrets: Delivery,
}

impl fmt::Debug for StartProcess {
    /// Variables and arguments may hold what nobody is shown.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StartProcess").field("id", &self.id).field("warrant", &self.warrant).finish_non_exhaustive()
    }
}

/// How far a process has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Where the stored output ends.
    pub end: u64,
    /// How far stdin has been written.
    pub stdin: u64,
    pub exit: Option<ProcessExit>,
    /// No more output will come: every writer is gone.
    pub closed: bool,
}

/// A piece of the stored output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub frames: Vec<Frame>,
    /// Where to go on.
    pub next: u64,
    pub near: Option<Mark>,
}

/// Where a reading ended, in the place's own words, so that the next one need not look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64, pub u64);

/// Bytes of one stream, or the notice that some are no longer kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Bytes { stream: OutputStream, offset: u64, at: Timestamp, bytes: Vec<u8> },
    Gap { from: u64, to: u64 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub processes: u64,
    /// Programs that commands left behind when they ended.
    pub background: u64,
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    /// Whoever keeps it is of another version: it takes nothing new, and ends with its last process.
    pub draining: bool,
}

/// Where a list of what left an environment begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EgressStart {
    Oldest,
    /// After what was read before, in the place's own words.
    After(String),
    /// With as many of the latest as are asked for.
    Latest,
}

/// A piece of that list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPiece {
    pub entries: Vec<EgressEntry>,
    /// Where to go on, also when nothing more is there yet.
    pub next: Option<String>,
    pub has_more: bool,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum PlaceError {
    /// There is no such program inside, or it cannot be run; nothing was started.
    #[error("`{program}` cannot be started: {message}")]
    Program { program: String, message: String, missing: bool },
    #[error("the working directory `{0}` is not there")]
    Directory(String),
    #[error("there is no such process here")]
    NoProcess,
    #[error("the process is over")]
    Over,
    #[error("its stdin is closed")]
    StdinClosed,
    /// A write that begins after what was written so far.
    #[error("stdin was written up to {0}")]
    StdinOffset(u64),
    /// It has no terminal to resize.
    #[error("the process has no terminal")]
    NoTerminal,
    /// The fence is older than one that this place has seen.
    #[error("the environment has been taken over")]
    Fenced,
    /// A barrier that is older than one that this place has seen, or as old and somebody else's; the highest fence that it has seen.
    #[error("the place has seen fence {0}")]
    Stale(u64),
    /// The definition says something else than what is awake, and what runs in it is not ended without being asked.
    #[error("the definition was changed, and processes of the version before still run")]
    Outdated,
    /// Whoever keeps it is of another version and takes nothing new; these run.
    #[error("the keeper of the environment is of another version, and takes no new process while others run")]
    Draining(Vec<ProcessId>),
    /// Whoever keeps it speaks a language that this server does not.
    #[error("{0}: what runs can be watched and read, and nothing else")]
    Foreign(String),
    /// This host cannot make the place as its definition asks.
    #[error("{message}")]
    CannotBeMade { message: String, suggestion: String },
    /// Something is wrong with an archive; with an entry of it, if that is named.
    #[error("{message}")]
    Archive { message: String, path: Option<String> },
    /// An archive that cannot be used here.
    #[error("{message}")]
    ArchiveUnsupported { message: String, suggestion: String },
    #[error("the disk is full or refuses writes: {0}")]
    StorageFull(String),
    /// Something must be done first.
    #[error("{message}")]
    InTheWay { message: String, suggestion: String },
    #[error("the environment is asleep, and nothing listens in it")]
    Asleep,
    /// Nothing listens there, or only where it cannot be reached.
    #[error("{message}")]
    PortClosed { message: String, suggestion: String },
    /// Something listens and does not let anybody in.
    #[error("{0}")]
    PortFailed(String),
    /// What was being done inside ended before it was done: the environment was stopped, or something inside ended it.
    #[error("the environment was stopped meanwhile, or what did this inside was killed")]
    CutOff,
    /// It cannot be done beside what runs.
    #[error("{0}")]
    NeedsStop(String),
    #[error("this provider cannot do that: {0}")]
    Unsupported(&'static str),
    #[error("{0}")]
    Failed(String),
}

impl From<PlaceError> for Error {
    fn from(error: PlaceError) -> Self {
        let message = error.to_string();
        match error {
            PlaceError::Program { missing, .. } => {
                Self::new(if missing { Code::ProgramNotFound } else { Code::ProgramNotRunnable }, message)
                    .suggestion("name a program that is there inside: `stead exec ENV -- sh -c 'command -v NAME'` looks for one")
            }
            PlaceError::Directory(_) => Self::new(Code::DirectoryNotFound, message)
                .detail("field", "cwd")
                .suggestion("relative directories start at the workspace; leave it out to start there"),
            PlaceError::NoProcess => Self::new(Code::NotFound, message).suggestion("`stead ps --all` lists the processes"),
            PlaceError::Over | PlaceError::StdinClosed | PlaceError::NoTerminal => {
                Self::new(Code::Conflict, message).suggestion("`stead ps --all` shows the state of every process")
            }
            PlaceError::StdinOffset(offset) => {
                Self::new(Code::Conflict, message).detail("offset", offset).suggestion("send the bytes that lie at that offset")
            }
            PlaceError::Outdated => Self::new(Code::Conflict, message)
                .suggestion("wait for them, or end them with `stead env stop ENVIRONMENT`; then try again"),
            PlaceError::Draining(running) => Self::new(Code::EnvironmentDraining, message)
                .detail("processes", running.iter().map(ToString::to_string).collect::<Vec<_>>())
                .suggestion("wait for them, or end them with `stead env stop ENVIRONMENT`; `stead ps` shows them"),
            PlaceError::Foreign(_) => Self::new(Code::EnvironmentDraining, message)
                .suggestion("use the version of stead that started it, or end everything inside with `stead env stop ENVIRONMENT`"),
            PlaceError::Fenced | PlaceError::Stale(_) => Self::new(Code::FenceStale, message)
                .suggestion("somebody else holds it by now, and what was begun under the lease before has ended: acquire it anew"),
            PlaceError::CannotBeMade { suggestion, .. } => Self::new(Code::PostureNotEnforced, message).suggestion(suggestion),
            PlaceError::StorageFull(_) => Self::new(Code::StorageFull, message)
                .suggestion("free space under the data directory, then try again; `stead system df` shows what uses it"),
            PlaceError::Archive { path, .. } => match path {
                Some(path) => archive::invalid(message).detail("path", path),
                None => archive::invalid(message),
            },
            PlaceError::ArchiveUnsupported { suggestion, .. } => Self::new(Code::ArchiveUnsupported, message).suggestion(suggestion),
            PlaceError::InTheWay { suggestion, .. } => Self::new(Code::Conflict, message).suggestion(suggestion),
            PlaceError::Asleep => Self::new(Code::EnvironmentAsleep, message)
                .suggestion("start what should listen there: `stead exec ENVIRONMENT -- COMMAND` wakes it"),
            PlaceError::PortClosed { suggestion, .. } => Self::new(Code::PortClosed, message).recoverable(true).suggestion(suggestion),
            PlaceError::PortFailed(_) => Self::new(Code::PortFailed, message)
                .recoverable(true)
                .suggestion("look at what it prints (`stead ps`, `stead logs`), and whether it is busy"),
            PlaceError::CutOff => Self::new(Code::Conflict, message).recoverable(true).suggestion("try again; `stead ps` shows what runs"),
            PlaceError::NeedsStop(_) => Self::new(Code::CheckpointNeedsStop, message)
                .suggestion("wait for what runs, or let it be ended with `on_running: stop` (`--stop`); `stead ps` shows it"),
            PlaceError::Unsupported(_) => {
                Self::new(Code::ProviderNotConfigured, message).suggestion("`stead provider list` shows what each can do")
            }
            PlaceError::Failed(_) => Self::new(Code::ProviderFailed, message).suggestion("`stead doctor` says more"),
        }
    }
}
