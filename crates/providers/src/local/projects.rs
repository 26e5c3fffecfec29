//! Which project of the filesystem the files of a sandbox belong to, where the filesystem holds each project to a bound.
//!
//! The directory of the sandbox is the record: its project is the sandbox's. It is given last, after everything in the directory, so a crash
//! in between leaves a directory without one, for which another is chosen. A number is free that nothing on the filesystem belongs to: what
//! is left of a sandbox that is gone, in layers that others need, keeps its number from being chosen again.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use stead_sandbox::quota::{self, Bound};

use super::directory::Directory;

/// Far above what administrators name in /etc/projects; the trials of a host have those above.
const FIRST: u32 = 0x5000_0000;
const COUNT: u32 = 0x0fff_0000;
/// So many that are taken are passed over.
const ATTEMPTS: u32 = 1000;

#[derive(Default)]
pub struct Projects {
    /// Held while one is chosen.
    choosing: Mutex<()>,
}

/// The project of a directory, if it has one.
pub fn of(directory: &Path) -> Result<Option<u32>> {
    match quota::open(directory).and_then(quota::handed_on_by) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => Ok(None),
        // What a filesystem says that knows nothing of it.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTTY.raw_os_error()) => Ok(None),
        outcome => outcome,
    }
}

/// The bound goes before the sandbox does: nobody wakes one that is about to go, and nobody would remove it afterwards.
pub fn release(sandbox: &Path) -> Result<()> {
    let Some(project) = of(sandbox)? else { return Ok(()) };
    match quota::hold(quota::open(sandbox)?, project, Bound::default()) {
        // Quotas are not kept here any more.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(()),
        outcome => outcome,
    }
}

impl Projects {
    /// The project of a sandbox, to which from now on everything belongs that it writes: to its own directory, and to its uppermost layer.
    pub fn settle(&self, sandbox: &Path, upper: &Path) -> Result<u32> {
        let _choosing = self.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let project = match of(sandbox)? {
            Some(project) => project,
            None => choose(sandbox)?,
        };
        if upper != sandbox {
            super::layers::make_directory(upper)?;
            if of(upper)? != Some(project) {
                give_all(upper, project)?;
            }
        }
        Ok(project)
    }
}

fn choose(sandbox: &Path) -> Result<u32> {
    let mut hasher = DefaultHasher::new();
    sandbox.file_name().hash(&mut hasher);
    let start = u32::try_from(hasher.finish() % u64::from(COUNT)).unwrap_or(0);
    for attempt in 0..ATTEMPTS {
        let project = FIRST + (start + attempt) % COUNT;
        if !quota::usage(quota::open(sandbox)?, project)?.is_nothing() {
            continue;
        }
        let given = give_all(sandbox, project)?;
        // Another server on this filesystem may have chosen it at the same moment.
        if quota::usage(quota::open(sandbox)?, project)?.files <= given {
            return Ok(project);
        }
    }
    Err(Error::new(ErrorKind::AddrInUse, "the filesystem has no free project"))
}

/// Gives everything in a directory to a project, and the directory itself last. How many that were; links and what is no file stay nobody's.
fn give_all(path: &Path, project: u32) -> Result<u64> {
    let mut given = 1;
    let mut at = Directory::open(path)?;
    let mut entered = vec![(at.identity(), give_each(&at, project, &mut given)?)];
    while let Some((_, below)) = entered.last_mut() {
        if let Some(name) = below.pop() {
            // Others may be at work in it, if it is shared: what is gone needs no project, and what came since has it.
            at = match at.enter(&name) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                outcome => outcome?,
            };
            let below = give_each(&at, project, &mut given)?;
            entered.push((at.identity(), below));
            continue;
        }
        entered.pop();
        let Some((above, _)) = entered.last() else { break };
        at = at.leave()?;
        if at.identity() != *above {
            return Err(Error::other("its directories were moved meanwhile"));
        }
    }
    quota::give(quota::open(path)?, project)?;
    Ok(given)
}

/// Gives what is in one directory, and says which directories are to be entered.
fn give_each(directory: &Directory, project: u32, given: &mut u64) -> Result<Vec<OsString>> {
    let mut below = Vec::new();
    for entry in directory.entries()? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if !kind.is_dir() && !kind.is_file() {
            continue;
        }
        let name = entry.file_name();
        match quota::open(&directory.join(&name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            file => quota::give(file?, project)?,
        }
        *given += 1;
        if kind.is_dir() {
            below.push(name);
        }
    }
    Ok(below)
}
