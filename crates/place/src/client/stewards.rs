//! All stewards of this host: found when they are there, started when they are not.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::Timestamp;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::ports::{PortOrder, PortWord};
use stead_domain::process::{ExitCause, OutputStream, ProcessExit, ProcessUsage};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;
use tokio_util::task::TaskTracker;

use super::connection::First;
use super::{Connection, ErrandStream, Follower, Spawner, Trouble, handed};
use crate::blueprint::Blueprint;
use crate::log::{self, Found, Mark};
use crate::protocol::{Answer, Call, Errand, PROTOCOL, Progress, Refusal, Start, Task};
use crate::warrant::Warrant;
use crate::{Directories, socket_path, steward_lock};

/// How often a steward that is just leaving is waited for, and how long each time.
pub(super) const LEAVING: usize = 2000;
/// Reading so much takes less time than handing it to another thread: it was written a moment ago.
const LITTLE: usize = 64 << 10;
/// How often one is started again that ends without a word.
const SILENT: usize = 3;
/// How often files are looked at whose writer cannot be asked.
const LOOK: Duration = Duration::from_millis(500);
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// The stream to one steward, made by one caller at a time.
type Slot = Arc<AsyncMutex<Option<Arc<Connection>>>>;

pub struct Stewards {
    directories: Directories,
    spawner: Arc<Spawner>,
    slots: Mutex<HashMap<EnvironmentId, Slot>>,
    tasks: TaskTracker,
}

impl Stewards {
    pub fn new(directories: Directories, spawner: Spawner) -> Self {
        Self { directories, spawner: Arc::new(spawner), slots: Mutex::default(), tasks: TaskTracker::new() }
    }

    pub fn directories(&self) -> &Directories {
        &self.directories
    }

    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    pub(super) fn shared_spawner(&self) -> &Arc<Spawner> {
        &self.spawner
    }

    fn slot(&self, environment: EnvironmentId) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(environment).or_default())
    }

    /// The steward of an environment that is awake; none when it is asleep.
    pub async fn find(&self, environment: EnvironmentId) -> Result<Option<Arc<Connection>>, Trouble> {
        let slot = self.slot(environment);
        let mut known = slot.lock().await;
        self.find_in(&mut known, environment).await
    }

    async fn find_in(&self, known: &mut Option<Arc<Connection>>, environment: EnvironmentId) -> Result<Option<Arc<Connection>>, Trouble> {
        if let Some(connection) = known.as_ref().filter(|connection| !connection.is_gone()) {
            return Ok(Some(Arc::clone(connection)));
        }
        *known = None;
        let directory = self.directories.run(environment);
        for _ in 0..LEAVING {
            if !steward_lock::is_held(&directory).map_err(broken)? {
                return Ok(None);
            }
            // It may be about to listen, or about to leave.
            match connect(&directory).await {
                Ok(stream) => match Connection::again(stream, &self.tasks).await {
                    Ok(connection) => {
                        *known = Some(Arc::clone(&connection));
                        return Ok(Some(connection));
                    }
                    Err(Trouble::Gone) => {}
                    Err(trouble) => return Err(trouble),
                },
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
                Err(error) => return Err(broken(error)),
            }
            tokio::time::sleep(MOMENT).await;
        }
        Err(Trouble::Broken("the keeper of the environment holds its place and does not answer".to_owned()))
    }

    /// Whether an environment is kept by a steward of another version, which takes nothing new.
    pub async fn is_draining(&self, environment: EnvironmentId) -> Result<bool, Trouble> {
        let slot = self.slot(environment);
        // Whoever is about to make it makes one of ours, and is not waited for.
        let Ok(mut known) = slot.try_lock() else { return Ok(false) };
        match self.find_in(&mut known, environment).await {
            Ok(found) => Ok(found.is_some_and(|connection| connection.is_draining())),
            Err(Trouble::Foreign { .. }) => Ok(true),
            Err(trouble) => Err(trouble),
        }
    }

    /// The steward of an environment, started if there is none.
    pub async fn awaken(&self, blueprint: &Blueprint) -> Result<Arc<Connection>, Trouble> {
        self.awaken_for(blueprint, None).await.map(|(connection, _)| connection)
    }

    /// The same. One that is made for a start begins with it, and how that went is told; none when it was there already.
    async fn awaken_for(&self, blueprint: &Blueprint, start: Option<&Start>) -> Result<First, Trouble> {
        let slot = self.slot(blueprint.environment);
        let mut known = slot.lock().await;
        let mut silent = 0;
        for _ in 0..LEAVING {
            let found = match self.find_in(&mut known, blueprint.environment).await {
                Err(Trouble::Foreign { .. }) => {
                    self.end_foreign(blueprint.environment).await?;
                    continue;
                }
                found => found?,
            };
            if let Some(connection) = found {
                if connection.is_draining() {
                    let running = connection.running();
                    if !running.is_empty() {
                        return Err(Trouble::Draining(running));
                    }
                    // Nobody needs it any more.
                    let _ = connection.call(Call::Sleep { at_once: true }, &[]).await;
                    tokio::time::sleep(MOMENT).await;
                    continue;
                }
                if connection.version() == blueprint.spec_version {
                    match connection.has_files_of(blueprint).await {
                        Ok(true) => return Ok((connection, None)),
                        // Whatever it does there is lost: a backup was restored, and no record names those files.
                        Ok(false) => drop(connection.call(Call::Sleep { at_once: true }, &[]).await),
                        Err(Trouble::Gone) => {}
                        Err(trouble) => return Err(trouble),
                    }
                    tokio::time::sleep(MOMENT).await;
                    continue;
                }
                // Whoever asks read the definition before it was changed.
                if connection.version() > blueprint.spec_version {
                    return Err(Trouble::Outdated);
                }
                match connection.adopt(blueprint).await {
                    Ok(true) => return Ok((connection, None)),
                    Ok(false) => {}
                    Err(Trouble::Gone) => continue,
                    Err(trouble) => return Err(trouble),
                }
                // Made from another version of the definition: nothing new begins under what is no longer meant.
                match connection.call(Call::Activity, &[]).await {
                    Ok(Answer::Activity { processes: 0, .. }) => drop(connection.call(Call::Sleep { at_once: true }, &[]).await),
                    Ok(_) => return Err(Trouble::Outdated),
                    Err(Trouble::Gone) => {}
                    Err(trouble) => return Err(trouble),
                }
                tokio::time::sleep(MOMENT).await;
                continue;
            }
            let stream = match self.spawner.spawn_now(blueprint) {
                Some(stream) => stream,
                None => {
                    let (spawner, plan) = (Arc::clone(&self.spawner), blueprint.clone());
                    spawn_blocking(move || spawner.spawn(plan)).await.map_err(broken)?.map_err(broken)?
                }
            };
            let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)).map_err(broken)?;
            match Connection::first(stream, blueprint.spec_version, &self.tasks, start).await {
                Ok((connection, started)) => {
                    *known = Some(Arc::clone(&connection));
                    return Ok((connection, started));
                }
                Err(Trouble::Refused(Refusal::Leaving)) => tokio::time::sleep(MOMENT).await,
                // The spawner was killed with the order in its hands, or the steward before it could say a word.
                Err(Trouble::Gone) if silent < SILENT => {
                    silent += 1;
                    tokio::time::sleep(MOMENT).await;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Err(Trouble::Broken("the keeper of the environment does not come".to_owned()))
    }

    /// Tells the steward of an environment that is awake what the definition now is.
    pub async fn adopt(&self, blueprint: &Blueprint) -> Result<(), Trouble> {
        while let Some(connection) = self.find(blueprint.environment).await? {
            match connection.adopt(blueprint).await {
                Err(Trouble::Gone) => tokio::time::sleep(MOMENT).await,
                // Whatever it does there is lost: a backup was restored, and no record names those files.
                Err(Trouble::Refused(Refusal::OtherFiles)) => return self.sleep(blueprint.environment, true).await,
                outcome => return outcome.map(drop),
            }
        }
        Ok(())
    }

    /// Starts a process. A steward that leaves at this very moment is replaced: the same process is never started twice.
    pub async fn start(&self, blueprint: &Blueprint, start: &Start) -> Result<(), Trouble> {
        for _ in 0..LEAVING {
            let (connection, started) = self.awaken_for(blueprint, Some(start)).await?;
            let started = match started {
                Some(started) => started,
                None => connection.start(start.clone()).await,
            };
            match started {
                Err(Trouble::Gone | Trouble::Refused(Refusal::Leaving)) => tokio::time::sleep(MOMENT).await,
                outcome => return outcome,
            }
        }
        Err(Trouble::Broken("the keeper of the environment leaves again and again".to_owned()))
    }

    /// Has something done inside, by a process of its own; wakes the environment for it. Who only reads needs no warrant, and is always heard.
    pub async fn errand(&self, blueprint: &Blueprint, warrant: Option<Warrant>, errand: &Errand) -> Result<ErrandStream, Trouble> {
        let warrant = warrant.filter(|_| errand.changes());
        if warrant.is_none() && errand.changes() {
            return Err(Trouble::Broken("nothing is changed inside without a warrant; this is a fault of the server".to_owned()));
        }
        let task = Task::Files(errand.clone());
        let mut attempts = Attempts::default();
        loop {
            drop(self.awaken(blueprint).await?);
            if let Some(opened) = attempts.judge(self.send_inside(blueprint.environment, warrant, &task).await).await? {
                return Ok(opened);
            }
        }
    }

    /// Has a process inside answer a question about ports; none when the environment is asleep. It is not woken.
    pub async fn ask_about_ports(
        &self,
        environment: EnvironmentId,
        order: PortOrder,
    ) -> Result<Option<(PortWord, Option<TcpStream>)>, Trouble> {
        let mut attempts = Attempts::default();
        loop {
            let Some(connection) = self.find(environment).await? else { return Ok(None) };
            if connection.is_draining() {
                return Err(Trouble::Draining(connection.running()));
            }
            let opened = self.send_inside(environment, None, &Task::Ports(order)).await;
            if let Some(opened) = attempts.judge(opened).await? {
                let (word, handed) = opened.about_ports().await?;
                let handed = handed.map(|handed| handed::as_connection(handed).map_err(broken)).transpose()?;
                return Ok(Some((word, handed)));
            }
        }
    }

    async fn send_inside(&self, environment: EnvironmentId, warrant: Option<Warrant>, task: &Task) -> Result<ErrandStream, Trouble> {
        match connect(&self.directories.run(environment)).await {
            Ok(stream) => ErrandStream::open(stream, warrant, task).await,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Err(Trouble::Gone),
            Err(error) => Err(broken(error)),
        }
    }

    /// How far a process has come. None when there is no trace of it.
    pub async fn progress(&self, environment: EnvironmentId, process: ProcessId) -> Result<Option<Progress>, Trouble> {
        let connection = match self.find(environment).await {
            Err(Trouble::Foreign { .. }) => return self.written_so_far(environment, process).await,
            connection => connection?,
        };
        if let Some(watched) = connection.and_then(|connection| connection.watch(process)) {
            return Ok(Some(watched.borrow().clone()));
        }
        self.written_down(environment, process).await
    }

    /// What the files say of a process that no steward keeps.
    async fn written_down(&self, environment: EnvironmentId, process: ProcessId) -> Result<Option<Progress>, Trouble> {
        let logs = self.directories.logs(environment);
        let words = spawn_blocking(move || log::last_words(&logs, process)).await.map_err(broken)?.map_err(broken)?;
        Ok(words.map(|words| {
            // Nobody keeps it and nobody wrote down how it ended: it went with its keeper.
            let exit = words.exit.unwrap_or_else(|| lost(words.at));
            Progress { process, end: words.end, stdin: 0, exit: Some(exit), closed: true }
        }))
    }

    /// What the files say of a process whose keeper cannot be asked, and may run.
    async fn written_so_far(&self, environment: EnvironmentId, process: ProcessId) -> Result<Option<Progress>, Trouble> {
        let logs = self.directories.logs(environment);
        let words = spawn_blocking(move || log::last_words(&logs, process)).await.map_err(broken)?.map_err(broken)?;
        Ok(words.map(|words| Progress { process, end: words.end, stdin: 0, exit: words.exit, closed: words.closed }))
    }

    /// Waits until a process has come further than what is known.
    pub async fn further(&self, environment: EnvironmentId, process: ProcessId, seen: &Progress) -> Result<Option<Progress>, Trouble> {
        loop {
            let found = match self.find(environment).await {
                Err(Trouble::Foreign { .. }) => match self.written_so_far(environment, process).await? {
                    Some(now) if now == *seen => {
                        tokio::time::sleep(LOOK).await;
                        continue;
                    }
                    further => return Ok(further),
                },
                found => found?,
            };
            let watched = found.and_then(|connection| connection.watch(process));
            let Some(mut watched) = watched else { return self.written_down(environment, process).await };
            let further = watched.wait_for(|progress| progress != seen).await.map(|progress| progress.clone());
            match further {
                Ok(progress) => return Ok(Some(progress)),
                // Over, or the steward is gone: look again.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    /// Says that somebody follows a process and has taken what lies before the offset. None when nobody keeps it, and there is nothing to
    /// wait for.
    pub async fn follow(&self, environment: EnvironmentId, process: ProcessId, offset: u64) -> Result<Option<Follower>, Trouble> {
        loop {
            let connection = match self.find(environment).await {
                // It cannot be told, and goes on without us.
                Err(Trouble::Foreign { .. }) | Ok(None) => return Ok(None),
                found => found?,
            };
            let Some(connection) = connection.filter(|connection| connection.watch(process).is_some()) else { return Ok(None) };
            let follower = Follower::new(connection, process);
            if follower.reached(offset) {
                return Ok(Some(follower));
            }
            tokio::time::sleep(MOMENT).await;
        }
    }

    pub async fn read(
        &self,
        environment: EnvironmentId,
        process: ProcessId,
        from: u64,
        near: Option<Mark>,
        stream: Option<OutputStream>,
        at_most: usize,
    ) -> Result<Option<Found>, Trouble> {
        let logs = self.directories.logs(environment);
        // What is of another stream is passed over, and may be much.
        if at_most <= LITTLE && stream.is_none() && from == 0 {
            return log::read(&logs, process, from, near, stream, at_most).map_err(broken);
        }
        spawn_blocking(move || log::read(&logs, process, from, near, stream, at_most)).await.map_err(broken)?.map_err(broken)
    }

    /// Asks the steward of an environment that is awake.
    pub async fn call(&self, environment: EnvironmentId, call: Call, bytes: &[u8]) -> Result<Answer, Trouble> {
        loop {
            let connection = self.find(environment).await?.ok_or(Trouble::Refused(Refusal::NoProcess))?;
            match connection.call(call.clone(), bytes).await {
                // Every call may be repeated; whether there is a steward now is seen anew.
                Err(Trouble::Gone) => tokio::time::sleep(MOMENT).await,
                outcome => return outcome,
            }
        }
    }

    /// Ends everything in an environment and waits until its steward is gone.
    pub async fn sleep(&self, environment: EnvironmentId, at_once: bool) -> Result<(), Trouble> {
        loop {
            let connection = match self.find(environment).await {
                Err(Trouble::Foreign { .. }) => {
                    self.kill_foreign(environment).await?;
                    continue;
                }
                // One that was killed left something behind.
                Ok(None) if self.clear_left(environment).await? => return Ok(()),
                Ok(None) => continue,
                Ok(Some(connection)) => connection,
                Err(trouble) => return Err(trouble),
            };
            match connection.call(Call::Sleep { at_once }, &[]).await {
                // It says so a moment before it lets go of its lock, and is looked for until it has.
                Ok(_) | Err(Trouble::Gone) => tokio::time::sleep(MOMENT).await,
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Has removed what stewards left that did not end by themselves. Blocks for a moment.
    pub fn clear(&self) -> io::Result<()> {
        let entries = match std::fs::read_dir(self.directories.all_runs()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            outcome => outcome?,
        };
        for entry in entries {
            let directory = entry?.path();
            if !steward_lock::is_held(&directory)? {
                self.spawner.clear(directory)?;
            }
        }
        Ok(())
    }

    /// Every process that runs now, in whatever environment.
    pub async fn running(&self) -> Result<Vec<(EnvironmentId, ProcessId)>, Trouble> {
        let entries = match std::fs::read_dir(self.directories.all_runs()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            outcome => outcome.map_err(broken)?,
        };
        let mut running = Vec::new();
        for entry in entries {
            // One that comes or goes meanwhile is seen the next time.
            let Ok(stream) = connect(&entry.map_err(broken)?.path()).await else { continue };
            let Ok(connection) = Connection::again(stream, &self.tasks).await else { continue };
            let hello = connection.call(Call::Hello { protocol: PROTOCOL }, &[]).await;
            if let Ok(Answer::Hello { environment, processes, .. }) = hello {
                running.extend(processes.iter().filter(|one| one.exit.is_none()).map(|one| (environment, one.process)));
            }
        }
        Ok(running)
    }

    /// Lets go of every stream. The stewards go on.
    pub fn let_go(&self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.tasks.close();
    }
}

/// How often it was tried to have a process started inside.
#[derive(Default)]
struct Attempts {
    leaving: usize,
    silent: usize,
}

impl Attempts {
    /// What came of one; none when it is worth another, after a moment.
    async fn judge(&mut self, opened: Result<ErrandStream, Trouble>) -> Result<Option<ErrandStream>, Trouble> {
        match opened {
            Err(Trouble::Refused(Refusal::Leaving)) if self.leaving < LEAVING => self.leaving += 1,
            Err(Trouble::Refused(Refusal::Leaving)) => {
                return Err(Trouble::Broken("the keeper of the environment leaves again and again".to_owned()));
            }
            // It left at this moment, or there is no room inside for one more process.
            Err(Trouble::Gone) if self.silent < SILENT => self.silent += 1,
            Err(Trouble::Gone) => {
                return Err(Trouble::Broken("no process could be started inside: there are too many, or no memory is left".to_owned()));
            }
            outcome => return outcome.map(Some),
        }
        tokio::time::sleep(MOMENT).await;
        Ok(None)
    }
}

pub(super) async fn connect(directory: &std::path::Path) -> io::Result<UnixStream> {
    let (held, path) = socket_path::short(directory)?;
    let stream = match UnixStream::connect(path).await {
        // Whoever listened left before it took us: as if nobody had listened.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(io::ErrorKind::ConnectionRefused.into()),
        outcome => outcome?,
    };
    // The directory that was held open may be another environment's by now: then it was that one who answered.
    if held.is_some_and(|held| !steward_lock::is_at(&held, directory)) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(stream)
}

pub(super) fn broken(error: impl std::fmt::Display) -> Trouble {
    Trouble::Broken(error.to_string())
}

fn lost(last_seen: Timestamp) -> ProcessExit {
    ProcessExit {
        cause: ExitCause::Lost,
        code: None,
        signal: None,
        usage: ProcessUsage::default(),
        duration_ms: 0,
        ended_at: last_seen,
        limits_hit: Vec::new(),
    }
}
