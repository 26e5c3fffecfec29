//! The relay as a process: one per host, started once, ended by a signal.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stead_domain::Context;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::Trust;
use crate::control;
use crate::environment::Shared;
use crate::journal::{Journal, JournalOptions};
use crate::limits::Limits;
use crate::upstream::{HostResolver, Resolver};

pub struct Options {
    /// For the control socket and the lock; made if it is not there, for its owner alone.
    pub directory: PathBuf,
    pub journal: JournalOptions,
    pub limits: Limits,
    pub resolver: Arc<dyn Resolver>,
    /// A file of root certificates that are believed besides the system's, where secrets are brokered.
    pub roots: Option<PathBuf>,
}

impl Options {
    /// What a host uses: its own resolver, and two files of 4 MiB per environment.
    pub fn new(directory: PathBuf, journal: PathBuf) -> Self {
        let journal = JournalOptions { directory: journal, largest_file: 4 << 20 };
        Self { directory, journal, limits: Limits::default(), resolver: Arc::new(HostResolver), roots: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("another relay runs in `{}`", .0.display())]
    Running(PathBuf),
    #[error("the directory `{}` cannot be used", .path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("the control socket cannot be made in `{}`", .path.display())]
    Socket { path: PathBuf, source: io::Error },
}

/// Serves until `stop`. Whatever it held is closed then, and nothing gets out any more.
pub async fn run(options: Options, context: Context, stop: CancellationToken) -> Result<(), RunError> {
    for path in [&options.directory, &options.journal.directory] {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|source| RunError::Directory { path: path.clone(), source })?;
    }
    // It holds values that are in no file, and is not to leave them in one.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let lock = lock(&options.directory)?;
    let path = control::socket_path(&options.directory);
    let listener = listen(&path).map_err(|source| RunError::Socket { path: path.clone(), source })?;
    let tasks = TaskTracker::new();
    let journal = Journal::start(options.journal, context.clock, &tasks);
    let limits = Limits { all_connections: options.limits.all_connections.min(affordable_connections()), ..options.limits };
    let shared = Shared::new(limits, options.resolver, journal, context.randomness, Trust::new(options.roots));
    control::serve(listener, shared, stop).await;
    // Only ours: the directory may have been removed and made again for another relay meanwhile.
    if is_at(&lock, &options.directory.join(LOCK)) {
        let _ = std::fs::remove_file(path);
    }
    // The last lines are written when nobody can hand in another.
    tasks.close();
    tasks.wait().await;
    Ok(())
}

const LOCK: &str = "relay.lock";

/// Whether an open file is still what its name says.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(held), Ok(there)) if identity(&held) == identity(&there))
}

/// The kernel lets go of it however the process ends.
fn lock(directory: &Path) -> Result<File, RunError> {
    let failed = |source| RunError::Directory { path: directory.to_owned(), source };
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(directory.join(LOCK)).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RunError::Running(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        // With the lock held, what is there was left by a relay that is gone.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Each connection is two descriptors; some are left for listeners, journals and lookups.
fn affordable_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let open = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20).min(1 << 20);
    usize::try_from(open).unwrap_or(1 << 20).saturating_sub(256).max(64) / 3
}
