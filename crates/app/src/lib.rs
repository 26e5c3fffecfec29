//! What Stead does, without SQL, HTTP or a kernel call: environments, sandboxes, identity, the reconciler and the janitor.
//!
//! Each use case is a method of [`App`] in a file of its own. It gets who asks, checks, and changes state in units of work.

mod audit;
pub mod checkpoints;
mod detached;
pub mod environments;
mod file_changes;
pub mod files;
mod idempotency;
pub mod identity;
mod janitor;
pub mod leases;
mod locks;
mod patience;
mod place;
pub mod ports;
pub mod processes;
mod provider;
mod providers;
mod reconcile;
pub mod repositories;
pub mod sandboxes;
pub mod secrets;
mod seed;
mod settings;
pub mod system;

use std::sync::Arc;

use stead_domain::Context;
use stead_domain::ids::{EnvironmentId, HostId};
use stead_store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use audit::AuditQuery;
pub use idempotency::{Outcome, Reply};
pub use identity::access::{Access, Entered, Presented};
pub use locks::KeyedLocks;
pub use place::{
    Activity, Barrier, EgressPiece, EgressStart, Errand, Follower, Frame, Mark, Output, Place, PlaceError, Premises, Progress,
    StartProcess, Still, Warrant,
};
pub use provider::{
    ArchivePieces, ArchiveTarget, AskedBy, DifferencePage, IncomingArchive, Layers, Listed, NewSandbox, Observation, PackedArchive,
    Provider, ProviderError, Resource, UnpackedArchive, View, Wanted,
};
pub use providers::Providers;
pub use repositories::{GitFailure, GitHost, GithubSession, InstallationToken, Login, TokenRequest, UserToken};
pub use secrets::{SecretSource, SourceFailure, SourceRule};
pub use settings::{Retention, Settings};

/// Seals values that must not be readable in the store, and signs those that come back from outside.
pub trait Sealer: Send + Sync {
    fn seal(&self, belongs_to: &[u8], value: &[u8]) -> stead_domain::Result<Vec<u8>>;
    fn open(&self, belongs_to: &[u8], sealed: &[u8]) -> stead_domain::Result<Vec<u8>>;
    /// A signature that only whoever holds the same key can make. What is signed says itself what it is for.
    fn sign(&self, content: &[u8]) -> stead_domain::Result<[u8; 32]>;
    /// Compares in a time that says nothing.
    fn is_signed(&self, content: &[u8], signature: &[u8]) -> bool;
    /// Which key seals now.
    fn key_id(&self) -> String;
    /// The same value, sealed by the key that seals now.
    fn rewrap(&self, belongs_to: &[u8], sealed: &[u8]) -> stead_domain::Result<Vec<u8>>;
    /// From now on another key seals; those before it still open. It may wait for somebody.
    fn next_key(&self) -> stead_domain::Result<()>;
    /// From now on the key with this id seals, where it can be had; whether it can. It may wait for somebody.
    fn use_key(&self, id: &str) -> stead_domain::Result<bool>;
    /// Nothing is sealed by another key than the present one any more.
    fn forget_older_keys(&self) -> stead_domain::Result<()>;
}

/// Everything that a use case may use. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) store: Store,
    pub(crate) context: Context,
    pub(crate) providers: Arc<Providers>,
    pub(crate) sealer: Arc<dyn Sealer>,
    pub(crate) secret_sources: Arc<Vec<SourceRule>>,
    pub(crate) repositories: repositories::Repositories,
    pub(crate) settings: Arc<Settings>,
    pub(crate) host: HostId,
    /// One piece of work on an environment's sandbox at a time.
    pub(crate) locks: Arc<KeyedLocks>,
    pub(crate) key_uses: Arc<identity::KeyUses>,
    pub(crate) gates: Arc<processes::Gates>,
    pub(crate) watches: Arc<processes::Watches>,
    /// Whoever writes down that something needs a layer holds this for reading; whoever removes those that nobody needs, for writing.
    pub(crate) layers: Arc<tokio::sync::RwLock<()>>,
    pub(crate) unneeded: Arc<checkpoints::Unneeded>,
    /// Layers that are being read, and stay whoever else needs them.
    pub(crate) pins: Arc<checkpoints::Pins>,
    /// How many archives may be on their way at a time: each takes up a thread, however slowly it is sent or taken.
    pub(crate) archives: Arc<tokio::sync::Semaphore>,
    /// Environments whose checkpoints were due and could not be made.
    pub(crate) skipped: Arc<std::sync::Mutex<std::collections::HashSet<EnvironmentId>>>,
    ends: Arc<processes::Ends>,
    /// Since when this server is there.
    pub(crate) since: stead_domain::Timestamp,
    pub(crate) underway: Arc<leases::Underway>,
    pub(crate) waiters: Arc<leases::Waiters>,
    pub(crate) lease_keeper: Arc<leases::LeaseKeeper>,
    /// Every task has an owner: shutdown waits for these.
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl App {
    pub fn new(store: Store, context: Context, providers: Providers, sealer: Arc<dyn Sealer>, settings: Settings, host: HostId) -> Self {
        Self {
            since: context.now(),
            store,
            context,
            providers: Arc::new(providers),
            sealer,
            secret_sources: Arc::default(),
            repositories: repositories::Repositories::default(),
            settings: Arc::new(settings),
            host,
            locks: Arc::new(KeyedLocks::default()),
            key_uses: Arc::new(identity::KeyUses::default()),
            gates: Arc::default(),
            watches: Arc::default(),
            layers: Arc::default(),
            unneeded: Arc::default(),
            pins: Arc::default(),
            archives: Arc::new(tokio::sync::Semaphore::new(checkpoints::MOST_ARCHIVES)),
            skipped: Arc::default(),
            ends: Arc::default(),
            underway: Arc::default(),
            waiters: Arc::default(),
            lease_keeper: Arc::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }
    }

    /// Where secrets come from beside the store. The first rule that fits a name counts.
    #[must_use]
    pub fn with_secret_sources(mut self, rules: Vec<SourceRule>) -> Self {
        self.secret_sources = Arc::new(rules);
        self
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Runs work to its end even when whoever asked for it hangs up.
    pub(crate) async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = stead_domain::Result<T>> + Send + 'static,
    ) -> stead_domain::Result<T> {
        detached::Detached::new(&self.tasks, work).await
    }

    /// Starts what goes on behind the requests: heartbeat, reconciler, janitor, and who watches the processes that a server left.
    pub fn start_background(&self) {
        let app = self.clone();
        self.tasks.spawn(async move { app.run_heartbeat().await });
        let app = self.clone();
        self.tasks.spawn(async move { app.run_reconciler().await });
        let app = self.clone();
        self.tasks.spawn(async move { app.run_janitor().await });
        let app = self.clone();
        self.tasks.spawn(async move { app.run_lease_keeper().await });
        let app = self.clone();
        self.tasks.spawn(async move { app.run_layer_sweeper().await });
        let app = self.clone();
        self.tasks.spawn(async move { app.watch_unfinished().await });
        let app = self.clone();
        self.tasks.spawn(async move { app.tell_all_places().await });
    }

    /// Asks the background work to end and waits for it and for every detached piece of work.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.store.close().await;
    }

    /// Waits, and tells whether to go on.
    pub(crate) async fn pause(&self, duration: std::time::Duration) -> bool {
        tokio::select! {
            () = self.stopping.cancelled() => false,
            () = tokio::time::sleep(duration) => true,
        }
    }
}
