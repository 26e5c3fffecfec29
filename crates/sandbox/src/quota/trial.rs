//! Whether a filesystem really holds a project to its bound: one is bounded, and written to until it is refused.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::{BLOCK, Bound, give, hold, open, usage};

/// Above the projects of sandboxes; one for each process that tries.
const FIRST: u32 = 0x5fff_0000;
const NAME: &str = "quota";
/// XFS sets a good part aside for each new name.
const BYTES: u64 = 256 * BLOCK;
const FILES: u64 = 8;

/// Tries it in a directory, and leaves nothing there. Else says what stands in the way.
pub fn try_in(directory: &Path) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only a server that root runs can hold a directory to a quota".to_owned());
    }
    let project = FIRST + (std::process::id() & 0xffff);
    let path = directory.join(NAME);
    fs::create_dir(&path).map_err(|error| format!("nothing can be tried: {error}"))?;
    let tried = attempt(&path, project);
    // A bound without files is nobody's, and the next process of that number sets its own.
    let _ = open(&path).and_then(|probe| hold(&probe, project, Bound::default()));
    let _ = fs::remove_dir_all(&path);
    tried
}

fn attempt(path: &Path, project: u32) -> Result<(), String> {
    const NO_QUOTA: &str = "the filesystem of the data directory keeps no project quotas";
    let probe = open(path).map_err(|error| error.to_string())?;
    give(&probe, project).map_err(|error| format!("{NO_QUOTA} ({error})"))?;
    hold(&probe, project, Bound { bytes: BYTES, files: FILES }).map_err(|error| format!("{NO_QUOTA} ({error})"))?;
    let before = usage(probe.as_fd(), project).map_err(|error| error.to_string())?;
    if before.files == 0 {
        return Err("the filesystem of the data directory has project quotas, and they are switched off".to_owned());
    }
    let (bytes, files) = as_anybody(|| (fill(path), crowd(path))).map_err(|error| error.to_string())?;
    for (what, outcome, most) in [("blocks", bytes, BYTES / BLOCK), ("files", files, FILES)] {
        match outcome {
            Err(error) if is_refusal(&error) => {}
            Err(error) => return Err(error.to_string()),
            Ok(()) => return Err(format!("the filesystem of the data directory counts by project, and does not hold {what} to {most}")),
        }
    }
    // Without the bound there is room: it was the bound that refused, and no full disk.
    hold(&probe, project, Bound::default()).map_err(|error| error.to_string())?;
    let after = as_anybody(|| fs::write(path.join("after"), [1; BLOCK as usize])).and_then(|written| written);
    after.map_err(|error| format!("it cannot be told whether the filesystem of the data directory holds a project to a bound: {error}"))
}

/// XFS says that there is no space left, as if the project were a disk of its own.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::QuotaExceeded | io::ErrorKind::StorageFull)
}

fn fill(path: &Path) -> io::Result<()> {
    let mut file = File::create(path.join("large"))?;
    (0..2 * BYTES / BLOCK).try_for_each(|_| file.write_all(&[1; BLOCK as usize]))
}

fn crowd(path: &Path) -> io::Result<()> {
    (0..2 * FILES).try_for_each(|number| File::create(path.join(format!("small-{number}"))).map(drop))
}

/// Whoever may use more than there is cannot see a bound; nothing inside a place may.
fn as_anybody<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let before = capabilities(None)?;
    let effective = before.effective.difference(CapabilitySet::SYS_RESOURCE);
    set_capabilities(None, CapabilitySets { effective, ..before })?;
    let done = work();
    set_capabilities(None, before)?;
    Ok(done)
}
