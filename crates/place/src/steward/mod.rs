//! The small host-side process that keeps one awake environment: it holds the pipes, logs, ends, fence and limits of what runs inside, and
//! ends it from outside. One thread, no runtime; it needs no server to go on.

mod adoption;
mod barrier;
mod calls;
mod clock;
mod disk;
mod egress;
mod endings;
mod errands;
mod followers;
mod inside;
mod kept;
mod output;
mod peer;
mod redaction;
mod secrets;
mod starts;
mod stdin;
mod stillness;
mod trust;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stead_domain::ids::ProcessId;

use self::disk::{Disk, Held};
use self::egress::Egress;
use self::errands::Errands;
use self::inside::Inside;
pub use self::inside::clear_group;
use self::kept::Kept;
use self::output::Hold;
use self::peer::Peer;
use self::redaction::Redaction;
use self::starts::Starts;
use self::stillness::Stillness;
use crate::blueprint::Blueprint;
use crate::log;
use crate::protocol::{Answer, Refusal, Word};
use crate::secrets::SecretFile;
use crate::warrant::Warrant;
use crate::{fence_file, remains, socket_path, steward_lock};

/// How long a program is given between being told to end and being made to.
const GRACE: Duration = Duration::from_secs(5);
/// Output is on the disk after so long at the latest.
const SYNC_EVERY: u64 = 1000;
/// How often it looks whether its directory is still there.
const LOOK_EVERY: u64 = 5000;
/// How long nothing must have happened before memory is given back.
const REST_AFTER: u64 = 500;
/// How long after an end the files for the next process are made. Whoever was told of the end may have been woken on our processor, and is
/// not to wait for that.
const PREPARE_AFTER: u64 = 5;
/// How long to wait for a disk that is full.
const FULL_DISK: u64 = 1000;

struct Steward {
    blueprint: Blueprint,
    /// The version of the protocol that it speaks.
    protocol: u32,
    inside: Inside,
    egress: Option<Egress>,
    disk: Option<Disk>,
    /// What the filesystem itself bounds.
    held: Option<Held>,
    listener: UnixListener,
    peers: BTreeMap<u64, Peer>,
    next_peer: u64,
    processes: BTreeMap<ProcessId, Kept>,
    /// None before two processes are over: what wakes an environment is not to wait for it, nor is one made for a single command.
    starts: Option<Starts>,
    /// A file that waits to be the log of the next process.
    spare: Option<File>,
    next_number: u64,
    /// The latest warrant that it has heard of: nothing happens under an earlier one.
    heard: Warrant,
    /// What was handed inside.
    errands: Errands,
    /// The latest version of the definition that it was told of, whether the place is as it says or not.
    heard_version: u64,
    hold: Hold,
    redaction: Redaction,
    /// What lies in the directory for secrets; none when that is not known.
    files: Option<Vec<SecretFile>>,
    /// Until then no output is read, because the disk does not take it.
    stalled_until: Option<u64>,
    last_sync: u64,
    last_look: u64,
    /// Its directory, held open with the lock on it.
    lock: OwnedFd,
    /// Since when nothing runs.
    idle_since: u64,
    /// When the next files are made at the latest, if nothing happens before.
    prepare_at: Option<u64>,
    /// When it and init give back the memory that they do not need while they wait.
    rest_at: Option<u64>,
    /// They have, and nothing has happened since.
    resting: bool,
    leaving: Option<Leaving>,
    /// Everything inside stands still.
    stillness: Option<Stillness>,
}

/// Somebody asked it to end everything.
struct Leaving {
    asked_by: Vec<(u64, u64)>,
    /// When it stops waiting for programs that were told to end.
    deadline: u64,
}

/// What a descriptor that has something to say belongs to.
#[derive(Clone, Copy)]
enum Source {
    Listener,
    Init,
    Relay,
    Gauge,
    Peer(u64),
    Output(ProcessId, usize),
    Stdin(ProcessId),
}

/// Keeps an environment until it is asleep. The first peer is the server that asked for it.
pub fn run(blueprint: Blueprint, first: OwnedFd, protocol: u32) -> i32 {
    // A program may close its stdin while somebody writes to it.
    stead_sandbox::survive_broken_pipes();
    let mut first = match Peer::new(UnixStream::from(first)) {
        Ok(peer) => peer,
        Err(_) => return 1,
    };
    let lock = match steward_lock::take(&blueprint.run) {
        Ok(Some(lock)) => lock,
        // Another one is there, or about to leave: whoever asked looks again.
        Ok(None) => return refuse(first, Refusal::Leaving),
        Err(error) => return refuse(first, Refusal::StorageFull { message: error.to_string() }),
    };
    let directory = blueprint.run.clone();
    if socket_path::is_there(&directory) {
        // The one before us was killed. Everything inside ends with it, unless it stood still.
        inside::clear_left(&blueprint);
    }
    if !remains::wait_for(&directory).unwrap_or(false) {
        // Two would write to the same files.
        let message = format!("what a killed keeper left has not ended yet; {} says who that is, try again", directory.display());
        return refuse(first, Refusal::Failed { message });
    }
    // Files of our own are made while others put the place together; each may have to wait for the disk.
    let beside = || {
        let noted = remains::note(&directory, None);
        // Read under the lock: whoever raises it looks for us afterwards.
        let heard = fence_file::read(&blueprint.fence);
        (noted, heard, prepare(&directory), first.is_waiting().then(|| log::spare(&blueprint.logs).ok()).flatten())
    };
    let held = match Held::begin(&blueprint).transpose() {
        Ok(held) => held,
        Err(error) => {
            let _ = steward_lock::remove(&directory, lock);
            return refuse(first, Refusal::CannotBeMade { message: format!("the filesystem holds its files to no bound: {error}") });
        }
    };
    let made = Inside::make_while(&blueprint, beside);
    let settled = held.as_ref().map_or(Ok(()), Held::settle);
    let (mut inside, (noted, heard, listener, spare)) = match made {
        Ok(made) => made,
        Err(refusal) => {
            let _ = steward_lock::remove(&directory, lock);
            return refuse(first, refusal);
        }
    };
    let noted = match noted {
        // Somebody else was begun for a moment, or the kernel does not say who.
        Ok(noted) if noted != Some(inside.pid()) => remains::note(&directory, Some(inside.pid())),
        noted => noted,
    };
    let unseen = || {
        io::Error::other("/proc does not show the first process inside, so nobody could tell when it has ended; mount it without `hidepid`")
    };
    let noted = noted.and_then(|noted| noted.ok_or_else(unseen));
    let heard = match heard {
        Ok(heard) => heard,
        Err(error) => {
            inside.end();
            inside.clean_up();
            let _ = steward_lock::remove(&directory, lock);
            return refuse(first, unreadable(&blueprint.fence, &error));
        }
    };
    let (listener, _held) = match noted.and(listener) {
        Ok(listener) => listener,
        Err(error) => {
            inside.end();
            inside.clean_up();
            let _ = steward_lock::remove(&directory, lock);
            return refuse(first, Refusal::Failed { message: error.to_string() });
        }
    };
    if let Err(error) = settled {
        inside.end();
        inside.clean_up();
        let _ = steward_lock::remove(&directory, lock);
        return refuse(first, Refusal::CannotBeMade { message: format!("the filesystem holds its files to no bound: {error}") });
    }
    let mut egress = Egress::of(&blueprint);
    if let Some(Err(error)) = egress.as_mut().map(|egress| egress.connect(inside.outlets())) {
        let message = format!("the relay, which everything that leaves goes through, does not answer: {error}");
        inside.end();
        inside.clean_up();
        let _ = steward_lock::remove(&directory, lock);
        return refuse(first, Refusal::NoRelay { message });
    }
    let disk = match Disk::of(&blueprint, &inside).transpose() {
        Ok(disk) => disk,
        Err(error) => {
            egress.iter_mut().for_each(Egress::end);
            inside.end();
            inside.clean_up();
            let _ = steward_lock::remove(&directory, lock);
            return refuse(first, Refusal::CannotBeMade { message: format!("what its files occupy cannot be watched: {error}") });
        }
    };
    have_room_for_descriptors();
    let ready = first.answer(0, Answer::Done);
    let mut steward = Steward {
        blueprint,
        protocol,
        inside,
        egress,
        disk,
        held,
        listener,
        peers: BTreeMap::new(),
        next_peer: 1,
        processes: BTreeMap::new(),
        starts: None,
        spare,
        next_number: 1,
        heard,
        errands: Errands::default(),
        heard_version: 0,
        hold: Hold::default(),
        redaction: Redaction::default(),
        files: Some(Vec::new()),
        stalled_until: None,
        last_sync: clock::milliseconds(),
        last_look: clock::milliseconds(),
        lock,
        idle_since: clock::milliseconds(),
        prepare_at: None,
        rest_at: Some(clock::milliseconds() + REST_AFTER),
        resting: false,
        leaving: None,
        stillness: None,
    };
    if ready.is_ok() {
        steward.peers.insert(0, first);
    }
    let status = match steward.serve() {
        Ok(()) => 0,
        Err(_) => 1,
    };
    steward.leave();
    // Only now may the next one come: everything inside is gone, and everything is written down.
    let _ = steward_lock::remove(&directory, steward.lock);
    status
}

/// Each process takes some of ours. What runs inside was made before, and keeps the limit that it has.
fn have_room_for_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn refuse(mut peer: Peer, refusal: Refusal) -> i32 {
    let _ = peer.answer(0, Answer::Refused(refusal));
    peer.finish();
    1
}

/// Who may change the sandbox is not known, and is not guessed.
fn unreadable(fence: &Path, error: &io::Error) -> Refusal {
    let message = format!(
        "the fence in {} cannot be read, and nothing runs without it: {error}; remove the sandbox, or put back what it said",
        fence.display()
    );
    Refusal::CannotBeMade { message }
}

fn prepare(directory: &Path) -> io::Result<(UnixListener, Option<OwnedFd>)> {
    let (held, path) = socket_path::short(directory)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok((listener, held))
}

impl Steward {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let ready = self.wait()?;
            if !ready.is_empty() {
                self.rest_at = Some(clock::milliseconds() + REST_AFTER);
                self.resting = false;
            }
            for source in ready {
                self.attend(source);
            }
            self.tend();
            self.tell();
            if self.is_done() {
                return Ok(());
            }
        }
    }

    /// Waits until something has happened or something is due.
    fn wait(&mut self) -> io::Result<Vec<Source>> {
        let mut sources = vec![Source::Listener];
        let mut watched = vec![PollFd::new(&self.listener, PollFlags::IN)];
        if let Some(socket) = self.inside.socket() {
            sources.push(Source::Init);
            watched.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
        }
        if let Some(relay) = self.egress.as_ref().and_then(Egress::as_fd) {
            sources.push(Source::Relay);
            watched.push(PollFd::from_borrowed_fd(relay, PollFlags::IN));
        }
        if let Some(gauge) = self.disk.as_ref().and_then(Disk::as_fd) {
            sources.push(Source::Gauge);
            watched.push(PollFd::from_borrowed_fd(gauge, PollFlags::IN));
        }
        for (id, peer) in &self.peers {
            let events = if peer.wants_to_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            sources.push(Source::Peer(*id));
            watched.push(PollFd::from_borrowed_fd(peer.as_fd(), events));
        }
        for kept in self.processes.values() {
            if self.stalled_until.is_none() && kept.log.has_room() {
                for (at, pipe) in kept.outputs() {
                    sources.push(Source::Output(kept.id, at));
                    watched.push(PollFd::from_borrowed_fd(pipe, PollFlags::IN));
                }
            }
            if let Some(pipe) = kept.stdin.waits_for() {
                sources.push(Source::Stdin(kept.id));
                watched.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT));
            }
        }
        let patience = self.due().map(|due| {
            let milliseconds = due.saturating_sub(clock::milliseconds());
            Timespec { tv_sec: (milliseconds / 1000) as i64, tv_nsec: (milliseconds % 1000) as i64 * 1_000_000 }
        });
        if self.resting {
            // Last of all: whatever ran since would be there again.
            stead_sandbox::shed();
        }
        match poll(&mut watched, patience.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            outcome => outcome?,
        };
        let ready = watched.iter().zip(&sources).filter(|(watched, _)| !watched.revents().is_empty());
        // Later outputs of one process first: reading one to its end moves those behind it.
        Ok(ready.map(|(_, source)| *source).rev().collect())
    }

    fn attend(&mut self, source: Source) {
        match source {
            Source::Listener => self.accept(),
            Source::Init => self.hear_init(),
            Source::Relay => self.egress.iter_mut().for_each(Egress::lost),
            Source::Gauge => self.hear_gauge(),
            Source::Peer(id) => self.hear_peer(id),
            Source::Output(id, at) => {
                // Another of its outputs may have taken the last room.
                if let Some(kept) = self.processes.get_mut(&id).filter(|kept| kept.log.has_room())
                    && kept.read_output(at, &mut self.hold).is_err()
                {
                    self.stalled_until = Some(clock::milliseconds() + FULL_DISK);
                }
            }
            Source::Stdin(id) => {
                if let Some(kept) = self.processes.get_mut(&id) {
                    kept.stdin.write();
                    kept.has_news();
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            // The directory is the owner's alone, so whoever gets here is the owner or root.
            if let Ok(peer) = Peer::new(stream) {
                self.peers.insert(self.next_peer, peer);
                self.next_peer += 1;
            }
        }
    }

    fn hear_peer(&mut self, id: u64) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let heard = peer.flush().and_then(|()| peer.requests());
        match heard {
            // What a later version brought is not understood, like any other nonsense.
            Ok(requests) if requests.iter().any(|(request, _)| request.call.since() > self.protocol) => drop(self.peers.remove(&id)),
            Ok(requests) => {
                for (request, bytes) in requests {
                    self.call(id, request, &bytes);
                }
            }
            Err(_) => drop(self.peers.remove(&id)),
        }
    }

    fn answer(&mut self, peer: u64, number: u64, answer: Answer) {
        let answer = match answer {
            Answer::Refused(refusal) => Answer::Refused(self.redaction.without(refusal)),
            answer => answer,
        };
        if let Some(asking) = self.peers.get_mut(&peer)
            && asking.answer(number, answer).is_err()
        {
            self.peers.remove(&peer);
        }
    }

    /// Tells every peer what has come further, and lets go of what is finished.
    fn tell(&mut self) {
        let now = clock::milliseconds();
        for kept in self.processes.values_mut().filter(|kept| kept.news_due().is_some_and(|due| due <= now)) {
            kept.told(now);
            let word = Word::Progress(kept.progress());
            self.peers.retain(|_, peer| peer.say(&word).is_ok());
        }
        let before = self.processes.len();
        self.processes.retain(|_, kept| !kept.is_finished());
        if self.processes.is_empty() && before > 0 {
            self.idle_since = clock::milliseconds();
        }
        if self.processes.len() < before {
            self.prepare_at = Some(clock::milliseconds() + PREPARE_AFTER);
        }
    }

    /// Makes the files that the next processes need, while nobody waits for anything: without them they are only slower.
    fn prepare_for_more(&mut self) {
        self.prepare_at = None;
        // Many an environment is made for one command.
        if self.next_number <= 2 {
            return;
        }
        if self.starts.is_none() {
            self.starts = Starts::open(&self.blueprint.logs).ok();
        }
        if self.spare.is_none() {
            self.spare = log::spare(&self.blueprint.logs).ok();
        }
    }
}
