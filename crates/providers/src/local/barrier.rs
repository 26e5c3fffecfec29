//! The end of everything that has an earlier warrant, in all environments of a sandbox. First it is written down, so that whoever wakes knows of
//! it; then those are told that are awake.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use stead_app::{Barrier, PlaceError, Warrant};
use stead_place::client::{Stewards, Trouble};
use stead_place::fence_file::{self, Raised};
use stead_place::protocol::Refusal;
use stead_sandbox::quota::{self, Bound};
use tokio::task::spawn_blocking;

use super::projects;
use super::said::said;

/// How long a steward may take to end everything and to write that down.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a file of a few bytes needs where a sandbox has used up all that it may.
const LITTLE: Bound = Bound { bytes: 1 << 20, files: 64 };

pub fn presented(warrant: Warrant) -> stead_place::Warrant {
    stead_place::Warrant { fence: warrant.fence, lease: warrant.lease }
}

pub async fn hold_off(stewards: &Stewards, sandbox: PathBuf, barrier: &Barrier) -> Result<(), PlaceError> {
    let warrant = presented(barrier.warrant);
    let written = spawn_blocking(move || write_down(&sandbox, warrant)).await.map_err(|error| PlaceError::Failed(error.to_string()))?;
    if let Raised::Overruled(by) = written? {
        return Err(PlaceError::Stale(by.fence));
    }
    let (mut highest, mut failed) = (None, None);
    // Each is told, whatever became of the others.
    for environment in &barrier.environments {
        match stewards.barrier(*environment, warrant, barrier.stop, PATIENCE).await {
            Ok(()) => {}
            Err(Trouble::Refused(Refusal::Stale { fence })) => highest = highest.max(Some(fence)),
            Err(trouble) => failed = Some(said(trouble)),
        }
    }
    match (highest, failed) {
        (Some(fence), _) => Err(PlaceError::Stale(fence)),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(()),
    }
}

fn write_down(sandbox: &Path, warrant: stead_place::Warrant) -> Result<Raised, PlaceError> {
    let path = sandbox.join(fence_file::NAME);
    let written = match fence_file::raise(&path, warrant) {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            with_a_little_more(sandbox, error, || fence_file::raise(&path, warrant))
        }
        written => written,
    };
    written.map_err(|error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem => PlaceError::StorageFull(error.to_string()),
        ErrorKind::NotFound => PlaceError::InTheWay {
            message: format!("the directory {} of the sandbox is gone", sandbox.display()),
            suggestion: "put it back, or delete the environments that use it".to_owned(),
        },
        _ => PlaceError::InTheWay {
            message: format!("the fence in {} cannot be raised: {error}", path.display()),
            suggestion: "look at that file: put back what it said, or delete the environments that use the sandbox".to_owned(),
        },
    })
}

/// Whoever fills what a sandbox may occupy is not thereby safe from the barrier. Whoever is killed in between leaves the little until the next one
/// wakes, as stewards do.
fn with_a_little_more<T>(sandbox: &Path, full: Error, attempt: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let Some(project) = projects::of(sandbox)? else { return Err(full) };
    let usage = quota::usage(quota::open(sandbox)?, project)?;
    let more = |used: u64, bound: u64, little: u64| if bound == 0 { 0 } else { bound.max(used).saturating_add(little) };
    let lifted =
        Bound { bytes: more(usage.bytes, usage.bound.bytes, LITTLE.bytes), files: more(usage.files, usage.bound.files, LITTLE.files) };
    quota::hold(quota::open(sandbox)?, project, lifted)?;
    let outcome = attempt();
    quota::hold(quota::open(sandbox)?, project, usage.bound)?;
    outcome
}
