//! One stream to one steward: requests with their answers, and the news of its processes.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::ids::ProcessId;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

use super::outgoing::Outgoing;
use crate::blueprint::Blueprint;
use crate::protocol::{Answer, Call, Decoder, LAST, PROTOCOL, Progress, Refusal, Request, Start, Word, encode};

/// How long a steward may take to say who it is: it does nothing for longer but wait for a disk.
const HELLO: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The steward is gone; what was asked may or may not have been done.
    #[error("the keeper of the environment is gone")]
    Gone,
    #[error("the keeper refused: {0:?}")]
    Refused(Refusal),
    /// The definition was changed while processes of the version before run.
    #[error("the definition was changed, and processes of the version before still run")]
    Outdated,
    /// The keeper is of the last version and takes nothing new; these run.
    #[error("the keeper of the environment is of an older version, and takes no new process")]
    Draining(Vec<ProcessId>),
    /// The keeper speaks a version that this server does not.
    #[error("the keeper of the environment speaks version {protocol} of the protocol, and this server {LAST} and {PROTOCOL}")]
    Foreign { protocol: u32 },
    #[error("{0}")]
    Broken(String),
}

/// A stream to a new steward, and how the start went that it was made for.
pub type First = (Arc<Connection>, Option<Result<(), Trouble>>);

pub struct Connection {
    outgoing: Arc<Outgoing>,
    next: AtomicU64,
    /// The version of the definition that the place was made from.
    version: AtomicU64,
    /// The version of the protocol that the steward speaks.
    protocol: AtomicU32,
    /// Whether we know that what it keeps has the files that the environment has.
    compared: AtomicBool,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    processes: HashMap<ProcessId, watch::Sender<Progress>>,
    first: Option<oneshot::Receiver<Answer>>,
    gone: bool,
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn news(&self, progress: Progress) {
        let mut state = self.lock();
        let over = progress.exit.is_some() && progress.closed;
        match state.processes.get(&progress.process) {
            Some(sender) => drop(sender.send_replace(progress.clone())),
            None => drop(state.processes.insert(progress.process, watch::channel(progress.clone()).0)),
        }
        // From now on the files say it all; those who wait have been told.
        if over {
            state.processes.remove(&progress.process);
        }
    }
}

impl Connection {
    /// Takes a stream to a steward that is just being made and says when it is ready, or why it is not. What it is made for is said before it
    /// listens, so that nobody has to be woken between the two; with it comes how that start went.
    pub async fn first(stream: UnixStream, version: u64, tasks: &TaskTracker, start: Option<&Start>) -> Result<First, Trouble> {
        let connection = Self::over(stream, tasks);
        connection.version.store(version, Ordering::Relaxed);
        connection.compared.store(true, Ordering::Relaxed);
        let starting = async {
            match start {
                Some(start) => Some(connection.start(start.clone()).await),
                None => None,
            }
        };
        // One that refuses has not heard the start.
        match tokio::join!(connection.first_word(), starting) {
            (Ok(Answer::Done), started) => Ok((connection, started)),
            (Ok(_), _) => Err(Trouble::Broken("the keeper spoke out of turn".to_owned())),
            (Err(trouble), _) => Err(trouble),
        }
    }

    /// Speaks to a steward that is there, and learns what it keeps. One that is stopped, or hangs on its disk, is not waited for without end.
    pub async fn again(stream: UnixStream, tasks: &TaskTracker) -> Result<Arc<Self>, Trouble> {
        Self::again_within(HELLO, stream, tasks).await
    }

    async fn again_within(patience: Duration, stream: UnixStream, tasks: &TaskTracker) -> Result<Arc<Self>, Trouble> {
        let connection = Self::over(stream, tasks);
        let hello = connection.call(Call::Hello { protocol: PROTOCOL }, &[]);
        let silent =
            |_| Trouble::Broken("the keeper of the environment does not answer; it may be stopped, or waiting for its disk".to_owned());
        match tokio::time::timeout(patience, hello).await.map_err(silent)?? {
            Answer::Hello { protocol, processes, spec_version, .. } if (LAST..=PROTOCOL).contains(&protocol) => {
                connection.protocol.store(protocol, Ordering::Relaxed);
                connection.version.store(spec_version, Ordering::Relaxed);
                for progress in processes {
                    connection.shared.news(progress);
                }
                Ok(connection)
            }
            Answer::Hello { protocol, .. } => Err(Trouble::Foreign { protocol }),
            _ => Err(Trouble::Broken("the keeper did not say hello".to_owned())),
        }
    }

    fn over(stream: UnixStream, tasks: &TaskTracker) -> Arc<Self> {
        let (reading, writing) = stream.into_split();
        let shared = Arc::new(Shared::default());
        let outgoing = Arc::new(Outgoing::new(writing));
        let said = Arc::clone(&outgoing);
        let heard = Arc::clone(&shared);
        let (sender, receiver) = oneshot::channel();
        // What a steward says of itself before it was asked anything.
        shared.lock().waiting.insert(0, sender);
        shared.lock().first = Some(receiver);
        tasks.spawn(async move {
            // Either half that ends is the end of both.
            tokio::select! {
                _ = listen(reading, &heard) => {}
                _ = said.drain() => {}
            }
            let mut state = heard.lock();
            state.gone = true;
            // Whoever waits is told by the end of its channel.
            state.waiting.clear();
            state.processes.clear();
        });
        Arc::new(Self {
            outgoing,
            next: AtomicU64::new(1),
            version: AtomicU64::new(0),
            protocol: AtomicU32::new(PROTOCOL),
            compared: AtomicBool::new(false),
            shared,
        })
    }

    async fn first_word(&self) -> Result<Answer, Trouble> {
        let first = self.shared.lock().first.take().ok_or(Trouble::Gone)?;
        heard(first).await
    }

    /// Whether the steward is left from before an upgrade: it keeps what runs, and ends with the last of it.
    pub fn is_draining(&self) -> bool {
        self.protocol.load(Ordering::Relaxed) < PROTOCOL
    }

    /// What the steward keeps that is not over.
    pub fn running(&self) -> Vec<ProcessId> {
        let state = self.shared.lock();
        let mut running: Vec<_> =
            state.processes.iter().filter(|(_, progress)| progress.borrow().exit.is_none()).map(|(id, _)| *id).collect();
        running.sort();
        running
    }

    /// Whether the steward knows a call.
    pub fn understands(&self, call: &Call) -> bool {
        call.since() <= self.protocol.load(Ordering::Relaxed)
    }

    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Asks it to be what the definition now says; whether it is.
    pub async fn adopt(&self, blueprint: &Blueprint) -> Result<bool, Trouble> {
        let version = blueprint.spec_version;
        match self.call(Call::Adopt { blueprint: Box::new(blueprint.clone()) }, &[]).await {
            Ok(_) => {
                self.version.fetch_max(version, Ordering::Relaxed);
                Ok(true)
            }
            Err(Trouble::Refused(Refusal::Outdated)) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// Whether somebody who was there before us keeps what the blueprint means. Asked once; its files do not change while it is awake.
    pub async fn has_files_of(&self, blueprint: &Blueprint) -> Result<bool, Trouble> {
        if self.compared.load(Ordering::Relaxed) {
            return Ok(true);
        }
        match self.adopt(blueprint).await {
            Err(Trouble::Refused(Refusal::OtherFiles)) => Ok(false),
            outcome => {
                outcome?;
                self.compared.store(true, Ordering::Relaxed);
                Ok(true)
            }
        }
    }

    pub fn is_gone(&self) -> bool {
        self.shared.lock().gone
    }

    pub async fn call(&self, call: Call, bytes: &[u8]) -> Result<Answer, Trouble> {
        if !self.understands(&call) {
            return Err(Trouble::Broken("the keeper of the environment is of an older version, and does not know this call".to_owned()));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let message = encode(&Request { number, call }, bytes).map_err(|error| Trouble::Broken(error.to_string()))?;
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if state.gone {
                return Err(Trouble::Gone);
            }
            state.waiting.insert(number, sender);
        }
        self.outgoing.say(message);
        heard(receiver).await
    }

    /// Says something whose answer nobody waits for. Whether it can still be heard.
    pub(super) fn tell(&self, call: Call) -> bool {
        if !self.understands(&call) {
            return !self.is_gone();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let message = encode(&Request { number, call }, &[]);
        match message {
            Ok(message) if !self.is_gone() => {
                self.outgoing.say(message);
                true
            }
            _ => false,
        }
    }

    /// Starts a process. News of it are kept from before it begins, so that none is missed.
    pub async fn start(&self, start: Start) -> Result<(), Trouble> {
        let process = start.process;
        let nothing = Progress { process, end: 0, stdin: 0, exit: None, closed: false };
        self.shared.lock().processes.entry(process).or_insert_with(|| watch::channel(nothing).0);
        let answer = self.call(Call::Start(start), &[]).await;
        if !matches!(answer, Ok(Answer::Done)) {
            self.shared.lock().processes.remove(&process);
        }
        answer.map(drop)
    }

    /// News of a process that the steward keeps; none when it keeps no such one.
    pub fn watch(&self, process: ProcessId) -> Option<watch::Receiver<Progress>> {
        self.shared.lock().processes.get(&process).map(watch::Sender::subscribe)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.outgoing.end();
    }
}

/// Somebody who follows the output of a process, for as long as this is there.
pub struct Follower {
    connection: Arc<Connection>,
    process: ProcessId,
    number: u64,
}

impl Follower {
    pub fn new(connection: Arc<Connection>, process: ProcessId) -> Self {
        let number = connection.next.fetch_add(1, Ordering::Relaxed);
        Self { connection, process, number }
    }

    /// It has taken what lies before the offset. False when its keeper no longer hears that.
    pub fn reached(&self, offset: u64) -> bool {
        self.connection.tell(Call::Follow { process: self.process, follower: self.number, offset })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.connection.tell(Call::Unfollow { process: self.process, follower: self.number });
    }
}

async fn heard(answer: oneshot::Receiver<Answer>) -> Result<Answer, Trouble> {
    match answer.await {
        Ok(Answer::Refused(refusal)) => Err(Trouble::Refused(refusal)),
        Ok(answer) => Ok(answer),
        Err(_) => Err(Trouble::Gone),
    }
}

async fn listen(mut reading: OwnedReadHalf, shared: &Shared) -> io::Result<()> {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = reading.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        decoder.push(&buffer[..length]);
        while let Some((word, _)) = decoder.take::<Word>()? {
            match word {
                Word::Answer { number, answer } => {
                    if let Some(waiting) = shared.lock().waiting.remove(&number) {
                        let _ = waiting.send(answer);
                    }
                }
                Word::Progress(progress) => shared.news(progress),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_keeper_that_says_nothing_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let outcome = Connection::again_within(Duration::from_millis(1), ours, &TaskTracker::new()).await;
        assert!(matches!(outcome, Err(Trouble::Broken(message)) if message.contains("does not answer")));
        // It was there all the time.
        drop(theirs);
    }
}
