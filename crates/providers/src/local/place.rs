//! Processes in local sandboxes: what the server asks, in the words of the place protocol.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stead_app::{
    Activity, Barrier, EgressPiece, EgressStart, Errand, Follower, Frame, Mark, Output, Place, PlaceError, Premises, Progress,
    StartProcess, Still, Warrant,
};
use stead_domain::changes::{FileChange, RelativePath};
use stead_domain::files::{FileOrder, FileWord};
use stead_domain::ids::{EnvironmentId, ProcessId, SandboxId};
use stead_domain::ports::{ListeningPort, PortOrder, PortWord};
use stead_domain::process::{OutputStream, TerminalSize};
use stead_domain::secret::SecretValue;
use stead_place::Directories;
use stead_place::blueprint::{Blueprint, Network, Quota};
use stead_place::client::{ErrandStream, Spawner, Stewards, Trouble};
use stead_place::log::{self, Piece};
use stead_place::protocol::{self, Answer, Call, Refusal, Start};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use super::abilities::Known;
use super::barrier::{self, presented};
use super::blueprint::{Site, check_writable};
use super::changes::{self, Layer};
use super::host_paths::HostPaths;
use super::images::Images;
use super::journal;
use super::layers::Shelf;
use super::projects::{self, Projects};
use super::relay::Relay;
use super::said::{cut_off, out_of_turn, port_problem, said};
use super::secrets;
use super::stack::Stack;

type Result<T, E = PlaceError> = std::result::Result<T, E>;

/// What is sent to a process inside at once.
const ERRAND_PIECE: usize = 256 << 10;
/// How long a writer waits before it looks again whether a program has read.
const FULL: Duration = Duration::from_millis(20);

/// How often it is tried again where a relay ended, or a layer was moved, at the very moment it was needed.
const ATTEMPTS: usize = 3;

pub struct LocalPlace {
    stewards: Stewards,
    skeleton: PathBuf,
    sandboxes: PathBuf,
    shelf: Arc<Shelf>,
    host_paths: Arc<HostPaths>,
    images: Arc<Images>,
    relay: Relay,
    /// What places see where their definition names repositories.
    inside: PathBuf,
    /// Where the relay writes down what it did.
    journal: PathBuf,
    /// What the operator lets environments reach although it is not public.
    reachable: Vec<String>,
    /// How much is kept of the output of one process.
    log_bytes: u64,
    abilities: Known,
    projects: Arc<Projects>,
}

impl LocalPlace {
    pub fn new(
        data_dir: &Path,
        sandboxes: PathBuf,
        shelf: Arc<Shelf>,
        host_paths: Arc<HostPaths>,
        images: Arc<Images>,
        roles: Roles,
        abilities: Known,
    ) -> Self {
        let Roles { spawner, relay, reachable, log_bytes } = roles;
        let stewards = Stewards::new(Directories::below(data_dir), spawner);
        // Neither is worth a server that does not start: whatever is wrong is said when something is to be run.
        let ready = stewards.clear().and_then(|()| stewards.spawner().prepare());
        if let Err(error) = ready {
            tracing::warn!(%error, "the place for processes could not be made ready");
        }
        // What is mounted from there is named without links.
        let sandboxes = sandboxes.canonicalize().unwrap_or(sandboxes);
        Self {
            stewards,
            skeleton: skeleton(data_dir),
            sandboxes,
            shelf,
            host_paths,
            images,
            relay,
            inside: inside(data_dir),
            journal: data_dir.join("egress"),
            reachable,
            log_bytes,
            abilities,
            projects: Arc::default(),
        }
    }

    fn blueprint(&self, premises: &Premises) -> Result<Blueprint> {
        let sandbox = self.sandbox(premises.sandbox);
        let layers = self.shelf.locate(premises.sandbox, &premises.stack).map_err(|error| PlaceError::CannotBeMade {
            message: format!("its files cannot be found: {error}"),
            suggestion: "restore a checkpoint that is whole: `stead checkpoint list` shows them".to_owned(),
        })?;
        let image = premises.spec.image().map(|(path, digest)| self.images.find(Path::new(path), digest));
        let site = Site {
            directories: self.stewards.directories(),
            skeleton: &self.skeleton,
            sandbox: &sandbox,
            layers: &layers,
            host_paths: &self.host_paths,
            relay: self.relay.directory(),
            reachable: &self.reachable,
            inside: &self.inside,
            image: image.as_ref(),
        };
        site.blueprint(premises)
    }

    /// What an environment needs beside itself before it can be awake.
    async fn prepare(&self, premises: &Premises) -> Result<Blueprint> {
        self.prepare_image(premises).await?;
        let mut blueprint = self.blueprint(premises)?;
        if premises.allow_unenforced {
            // Whoever made it accepted that, and its posture says so.
            self.abilities.settled().await;
            self.abilities.now().leave_out(&mut blueprint.limits);
        }
        if premises.stack.upper.is_some() && premises.stack.below.is_empty() && premises.spec.bound_workspace().is_none() {
            // Whoever emptied it left the new layer to who needs it.
            let made = blueprint.workspace.source.clone();
            let made = spawn_blocking(move || std::fs::DirBuilder::new().recursive(true).mode(0o700).create(made)).await;
            made.map_err(|error| PlaceError::Failed(error.to_string()))?.map_err(|error| PlaceError::StorageFull(error.to_string()))?;
        }
        blueprint.quota = self.quota(premises, blueprint.limits.disk_bytes.is_some()).await?;
        if matches!(blueprint.network, Network::Relayed { .. }) {
            self.relay.ensure().await.map_err(|error| PlaceError::CannotBeMade {
                message: format!("the relay, which everything that leaves goes through, cannot be started: {error}"),
                suggestion: "`stead doctor` says more; `network_access: disabled` needs none".to_owned(),
            })?;
        }
        Ok(blueprint)
    }

    /// What the filesystem is to hold to a bound, where it can. A sandbox that was bounded once is told when it is not any more.
    async fn quota(&self, premises: &Premises, is_bounded: bool) -> Result<Option<Quota>> {
        if is_bounded {
            // Nothing is watched that could be held, only because that is not known yet.
            self.abilities.settled().await;
        }
        let known = self.known_quota(premises).await?;
        if !is_bounded || self.abilities.now().quota.is_some() {
            return Ok(known);
        }
        let directory = self.sandbox(premises.sandbox);
        let upper = self.shelf.locate(premises.sandbox, &premises.stack).map_err(unbounded)?.upper;
        if let Some(Quota { project, .. }) = known
            && (upper == directory || projects::of(&upper).map_err(unbounded)? == Some(project))
        {
            return Ok(known);
        }
        let (projects, sandbox) = (Arc::clone(&self.projects), directory.clone());
        let settled = spawn_blocking(move || projects.settle(&sandbox, &upper)).await;
        let project = settled.map_err(|error| PlaceError::Failed(error.to_string()))?.map_err(unbounded)?;
        Ok(Some(Quota { directory, project }))
    }

    /// The same, of a sandbox that was bounded before.
    async fn known_quota(&self, premises: &Premises) -> Result<Option<Quota>> {
        let directory = self.sandbox(premises.sandbox);
        let Some(project) = projects::of(&directory).map_err(unbounded)? else { return Ok(None) };
        // What held it once may hold it still, and only who knows that can take it away.
        self.abilities.settled().await;
        Ok(self.abilities.now().quota.is_none().then_some(Quota { directory, project }))
    }

    /// Whether what failed was of that moment: the relay ended, or a layer lies elsewhere by now because the sandbox is gone that it lay in.
    async fn may_succeed_now<T>(&self, premises: &Premises, blueprint: &mut Blueprint, outcome: &Result<T, Trouble>) -> Result<bool> {
        let Err(Trouble::Refused(refusal @ (Refusal::NoRelay { .. } | Refusal::CannotBeMade { .. }))) = outcome else { return Ok(false) };
        let again = self.prepare(premises).await?;
        let differs = again != *blueprint;
        *blueprint = again;
        Ok(differs || matches!(refusal, Refusal::NoRelay { .. }))
    }

    /// What an image was when it was named must be there now.
    async fn prepare_image(&self, premises: &Premises) -> Result<()> {
        let Some((path, digest)) = premises.spec.image() else { return Ok(()) };
        let (path, digest) = (PathBuf::from(path), digest.map(str::to_owned));
        let (images, host_paths) = (Arc::clone(&self.images), Arc::clone(&self.host_paths));
        let prepared = spawn_blocking(move || {
            let refused = |message: String, suggestion: &str| PlaceError::CannotBeMade { message, suggestion: suggestion.to_owned() };
            if path.is_dir() {
                host_paths
                    .settle(&path)
                    .map_err(|message| refused(message, "put the directory back, or name another one in the definition"))?;
            }
            images
                .prepare(&path, digest.as_deref(), true)
                .map_err(|trouble| refused(format!("the image `{}` cannot be used: {trouble}", path.display()), trouble.advice()))
        });
        prepared.await.map_err(|error| PlaceError::Failed(error.to_string()))?.map(drop)
    }

    fn sandbox(&self, sandbox: SandboxId) -> PathBuf {
        self.sandboxes.join(sandbox.to_string())
    }

    /// File work on what was written beside a workspace, where it may block.
    async fn on_layer<T: Send + 'static>(
        &self,
        premises: &Premises,
        work: impl FnOnce(Layer<'_>) -> changes::Result<T> + Send + 'static,
    ) -> Result<T> {
        let workspace = self.blueprint(premises)?.workspace;
        let workspace = Stack::new(std::iter::once(workspace.source).chain(workspace.below));
        let directory = self.sandbox(premises.sandbox).join("changes");
        let outcome = spawn_blocking(move || {
            // What is written to over sealed layers is made when it is needed.
            if let [upper, _, ..] = workspace.layers.as_slice() {
                std::fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(upper)
                    .map_err(|error| PlaceError::Failed(error.to_string()))?;
            }
            work(Layer { directory: &directory, workspace: &workspace }).map_err(PlaceError::from)
        });
        outcome.await.map_err(|error| PlaceError::Failed(error.to_string()))?
    }

    async fn call(&self, environment: EnvironmentId, call: Call) -> Result<Answer> {
        self.stewards.call(environment, call, &[]).await.map_err(said)
    }
}

fn unbounded(error: std::io::Error) -> PlaceError {
    PlaceError::CannotBeMade {
        message: format!("the filesystem does not hold its files to a bound: {error}"),
        suggestion: "try again; `stead doctor` says what the filesystem of the data directory can do".to_owned(),
    }
}

/// Where a server keeps what places see that ask it for credentials. It is there when the server gives any.
pub fn inside(data_dir: &Path) -> PathBuf {
    data_dir.join("inside")
}

/// What a server starts beside itself, and how.
pub struct Roles {
    pub spawner: Spawner,
    pub relay: Relay,
    /// Hosts and ranges that environments may reach although they are not public.
    pub reachable: Vec<String>,
    /// How much is kept of the output of one process.
    pub log_bytes: u64,
}

/// Where the parts of the root lie that all places share.
pub fn skeleton(data_dir: &Path) -> PathBuf {
    data_dir.join("skeleton")
}

#[async_trait]
impl Place for LocalPlace {
    async fn start(&self, environment: &Premises, process: &StartProcess) -> Result<()> {
        let start = Start {
            process: process.id,
            argv: process.argv.clone(),
            cwd: process.cwd.clone(),
            env: secrets::variable(environment).into_iter().chain(process.env.iter().cloned()).collect(),
            stdin_open: process.stdin_open,
            terminal: process.terminal,
            timeout_milliseconds: process.timeout.map(|timeout| timeout.as_millis() as u64),
            limits: process.limits,
            warrant: Some(presented(process.warrant)),
            hold: process.hold,
            log_bytes: Some(self.log_bytes),
            secrets: secrets::sent(environment, process)?,
        };
        let mut blueprint = self.prepare(environment).await?;
        let mut started = self.stewards.start(&blueprint, &start).await;
        for _ in 0..ATTEMPTS {
            if !self.may_succeed_now(environment, &mut blueprint, &started).await? {
                break;
            }
            started = self.stewards.start(&blueprint, &start).await;
        }
        started.map_err(|trouble| match trouble {
            Trouble::Refused(Refusal::Program { message, missing }) => {
                PlaceError::Program { program: process.argv.first().cloned().unwrap_or_default(), message, missing }
            }
            Trouble::Refused(Refusal::Directory) => PlaceError::Directory(process.cwd.clone().unwrap_or_default()),
            trouble => said(trouble),
        })
    }

    async fn progress(&self, environment: EnvironmentId, process: ProcessId) -> Result<Option<Progress>> {
        Ok(self.stewards.progress(environment, process).await.map_err(said)?.map(come_so_far))
    }

    async fn further(&self, environment: EnvironmentId, process: ProcessId, seen: &Progress) -> Result<Progress> {
        let seen = protocol::Progress { process, end: seen.end, stdin: seen.stdin, exit: seen.exit.clone(), closed: seen.closed };
        let further = self.stewards.further(environment, process, &seen).await.map_err(said)?;
        further.map(come_so_far).ok_or(PlaceError::NoProcess)
    }

    async fn read(
        &self,
        environment: EnvironmentId,
        process: ProcessId,
        from: u64,
        near: Option<Mark>,
        stream: Option<OutputStream>,
        at_most: usize,
    ) -> Result<Output> {
        let near = near.map(|Mark(segment, position)| log::Mark { segment, position });
        let found = self.stewards.read(environment, process, from, near, stream, at_most).await.map_err(said)?;
        let found = found.ok_or(PlaceError::NoProcess)?;
        let frames = found.pieces.into_iter().map(|piece| match piece {
            Piece::Bytes { stream, offset, at, bytes } => Frame::Bytes { stream, offset, at, bytes },
            Piece::Gap { from, to } => Frame::Gap { from, to },
        });
        let near = found.mark.map(|mark| Mark(mark.segment, mark.position));
        Ok(Output { frames: frames.collect(), next: found.next, near })
    }

    async fn follow(&self, environment: EnvironmentId, process: ProcessId, offset: u64) -> Result<Option<Box<dyn Follower>>> {
        let follower = self.stewards.follow(environment, process, offset).await.map_err(said)?;
        Ok(follower.map(|follower| Box::new(Following(follower)) as Box<dyn Follower>))
    }

    async fn write_stdin(
        &self,
        environment: EnvironmentId,
        process: ProcessId,
        warrant: Warrant,
        offset: u64,
        bytes: &[u8],
        end: bool,
    ) -> Result<u64> {
        let warrant = Some(presented(warrant));
        let mut rest = bytes;
        let mut at = offset;
        loop {
            let answer = self.stewards.call(environment, Call::Stdin { process, warrant, offset: at, end }, rest).await.map_err(said)?;
            let Answer::Written { offset: taken } = answer else { return Err(out_of_turn()) };
            let new = usize::try_from(taken.saturating_sub(at)).unwrap_or(usize::MAX).min(rest.len());
            rest = &rest[new..];
            if rest.is_empty() {
                return Ok(taken);
            }
            at = taken;
            if new == 0 {
                tokio::time::sleep(FULL).await;
            }
        }
    }

    async fn signal(&self, environment: EnvironmentId, process: ProcessId, warrant: Option<Warrant>, signal: i32) -> Result<()> {
        self.call(environment, Call::Signal { process, warrant: warrant.map(presented), signal }).await.map(drop)
    }

    async fn resize(&self, environment: EnvironmentId, process: ProcessId, warrant: Warrant, size: TerminalSize) -> Result<()> {
        self.call(environment, Call::Resize { process, warrant: Some(presented(warrant)), size }).await.map(drop)
    }

    async fn barrier(&self, barrier: &Barrier) -> Result<()> {
        barrier::hold_off(&self.stewards, self.sandbox(barrier.sandbox), barrier).await
    }

    async fn end_by_force(&self, environment: EnvironmentId) -> Result<()> {
        self.stewards.end_by_force(environment).await.map_err(said)
    }

    async fn wake(&self, environment: &Premises) -> Result<()> {
        let mut blueprint = self.prepare(environment).await?;
        let mut woken = self.stewards.awaken(&blueprint).await;
        for _ in 0..ATTEMPTS {
            if !self.may_succeed_now(environment, &mut blueprint, &woken).await? {
                break;
            }
            woken = self.stewards.awaken(&blueprint).await;
        }
        woken.map(drop).map_err(said)
    }

    async fn errand(&self, environment: &Premises, warrant: Option<Warrant>, order: &FileOrder) -> Result<Box<dyn Errand>> {
        self.wake(environment).await?;
        let blueprint = self.prepare(environment).await?;
        let errand = protocol::Errand { directory: blueprint.workspace.path.clone(), order: order.clone() };
        let stream = self.stewards.errand(&blueprint, warrant.map(presented), &errand).await.map_err(said)?;
        Ok(Box::new(LocalErrand(stream)))
    }

    async fn listening(&self, environment: &Premises) -> Result<Option<Vec<ListeningPort>>> {
        let answered = self.stewards.ask_about_ports(environment.environment, PortOrder::ListPorts).await;
        match answered.map_err(cut_off)? {
            None => Ok(None),
            Some((PortWord::Ports { mut ports }, _)) => {
                let own = self.blueprint(environment)?.network.own_ports();
                ports.retain(|found| !own.contains(&found.port));
                Ok(Some(ports))
            }
            Some(_) => Err(out_of_turn()),
        }
    }

    async fn connect(&self, environment: &Premises, port: u16) -> Result<TcpStream> {
        if self.blueprint(environment)?.network.own_ports().contains(&port) {
            return Err(PlaceError::PortClosed {
                message: format!("port {port} inside is where connections to the outside go through, and nothing of the environment's own"),
                suggestion: "have the program listen on another port".to_owned(),
            });
        }
        let answered = self.stewards.ask_about_ports(environment.environment, PortOrder::Connect { port }).await;
        match answered.map_err(cut_off)? {
            None => Err(PlaceError::Asleep),
            Some((PortWord::Connected, Some(connection))) => Ok(connection),
            Some((PortWord::Failed { why, said }, _)) => Err(port_problem(port, why, &said)),
            Some(_) => Err(out_of_turn()),
        }
    }

    async fn definition_changed(&self, environment: &Premises) -> Result<()> {
        let quota = self.known_quota(environment).await?;
        self.stewards.adopt(&Blueprint { quota, ..self.blueprint(environment)? }).await.map_err(said)
    }

    async fn sleep(&self, environment: EnvironmentId, at_once: bool) -> Result<()> {
        self.stewards.sleep(environment, at_once).await.map_err(said)
    }

    async fn freeze(&self, environment: EnvironmentId, at_most: Duration) -> Result<Option<Box<dyn Still>>> {
        match self.stewards.freeze(environment, at_most).await {
            Ok(still) => Ok(still.map(|still| Box::new(StandingStill(still)) as Box<dyn Still>)),
            // Whatever it was, it can be stopped.
            Err(Trouble::Refused(Refusal::CannotStandStill { message })) => Err(PlaceError::NeedsStop(message)),
            Err(foreign @ Trouble::Foreign { .. }) => Err(PlaceError::NeedsStop(foreign.to_string())),
            // It leaves, or has just been killed: nothing inside moves any more, and nobody is to be left that stands.
            Err(Trouble::Gone | Trouble::Refused(Refusal::Leaving)) => Err(PlaceError::CutOff),
            Err(trouble) => Err(said(trouble)),
        }
    }

    async fn learn(&self, environment: EnvironmentId, known: &[(String, SecretValue)]) -> Result<()> {
        let connection = match self.stewards.find(environment).await {
            Ok(Some(connection)) => connection,
            Ok(None) => return Ok(()),
            Err(trouble) => return Err(said(trouble)),
        };
        connection.call(Call::Learn { known: secrets::known(known) }, &[]).await.map_err(said).map(drop)
    }

    async fn activity(&self, environment: EnvironmentId) -> Result<Option<Activity>> {
        let connection = match self.stewards.find(environment).await {
            Ok(Some(connection)) => connection,
            Ok(None) => return Ok(None),
            // What it uses is not known; what runs is written down.
            Err(Trouble::Foreign { .. }) => {
                let processes = self.stewards.unfinished(environment).await.map_err(said)?.len() as u64;
                return Ok(Some(Activity { processes, draining: true, ..Activity::default() }));
            }
            Err(trouble) => return Err(said(trouble)),
        };
        let draining = connection.is_draining();
        match connection.call(Call::Activity, &[]).await {
            Ok(Answer::Activity { processes, background, cpu_milliseconds, memory_bytes }) => {
                Ok(Some(Activity { processes, background, cpu_ms: cpu_milliseconds, memory_bytes, draining }))
            }
            Ok(_) => Err(out_of_turn()),
            // It fell asleep while we asked.
            Err(Trouble::Gone) => Ok(None),
            Err(trouble) => Err(said(trouble)),
        }
    }

    async fn is_draining(&self, environment: EnvironmentId) -> Result<bool> {
        self.stewards.is_draining(environment).await.map_err(said)
    }

    async fn running(&self) -> Result<Vec<(EnvironmentId, ProcessId)>> {
        self.stewards.running().await.map_err(said)
    }

    async fn forget(&self, environment: EnvironmentId, process: Option<ProcessId>) -> Result<()> {
        let (logs, journal) = (self.stewards.directories().logs(environment), self.journal.clone());
        let removed = spawn_blocking(move || match process {
            Some(process) => log::remove(&logs, process),
            None => match std::fs::remove_dir_all(&logs) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => journal::remove(&journal, environment),
            },
        });
        removed.await.map_err(|error| PlaceError::Failed(error.to_string()))?.map_err(|error| PlaceError::Failed(error.to_string()))
    }

    async fn stored_output(&self) -> Result<Vec<(EnvironmentId, ProcessId, u64)>> {
        let logs = self.stewards.directories().all_logs().to_owned();
        let sizes = spawn_blocking(move || log::sizes(&logs));
        sizes.await.map_err(|error| PlaceError::Failed(error.to_string()))?.map_err(|error| PlaceError::Failed(error.to_string()))
    }

    async fn egress(&self, environment: EnvironmentId, start: &EgressStart, limit: usize) -> Result<EgressPiece> {
        let (journal, start) = (self.journal.clone(), start.clone());
        let read = spawn_blocking(move || journal::read(&journal, environment, &start, limit));
        read.await.map_err(|error| PlaceError::Failed(error.to_string()))?.map_err(|error| PlaceError::Failed(error.to_string()))
    }

    async fn changes(&self, environment: &Premises, below: Option<&RelativePath>, skip: u64, limit: usize) -> Result<Vec<FileChange>> {
        let below = below.cloned();
        self.on_layer(environment, move |layer| changes::list(layer, below.as_ref(), skip, limit)).await
    }

    async fn keep_changes(&self, environment: &Premises, paths: Option<&[RelativePath]>) -> Result<u64> {
        check_writable(environment)?;
        let paths = paths.map(<[_]>::to_vec);
        self.on_layer(environment, move |layer| match paths {
            Some(paths) => changes::keep_some(layer, &paths),
            None => changes::keep_all(layer),
        })
        .await
    }

    async fn drop_changes(&self, environment: &Premises, paths: Option<&[RelativePath]>) -> Result<u64> {
        let paths = paths.map(<[_]>::to_vec);
        self.on_layer(environment, move |layer| match paths {
            Some(paths) => changes::drop_some(layer, &paths),
            None => changes::drop_all(layer),
        })
        .await
    }
}

struct LocalErrand(ErrandStream);

#[async_trait]
impl Errand for LocalErrand {
    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        for piece in bytes.chunks(ERRAND_PIECE) {
            self.0.send(piece).await.map_err(cut_off)?;
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<()> {
        self.0.end().await.map_err(cut_off)
    }

    async fn next(&mut self) -> Result<(FileWord, bytes::Bytes)> {
        self.0.next().await.map_err(cut_off)
    }
}

struct StandingStill(stead_place::client::Still);

#[async_trait]
impl Still for StandingStill {
    async fn thaw(self: Box<Self>) -> Result<()> {
        self.0.thaw().await.map_err(cut_off)
    }
}

struct Following(stead_place::client::Follower);

impl Follower for Following {
    fn reached(&self, offset: u64) -> bool {
        self.0.reached(offset)
    }
}

fn come_so_far(progress: protocol::Progress) -> Progress {
    Progress { end: progress.end, stdin: progress.stdin, exit: progress.exit, closed: progress.closed }
}
