//! Which files make up the log of a process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stead_domain::ids::ProcessId;

/// One file of a log and where in the stream it begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    pub begins: u64,
    pub path: PathBuf,
}

pub fn first(directory: &Path, process: ProcessId) -> PathBuf {
    directory.join(format!("{process}.log"))
}

pub fn more(directory: &Path, process: ProcessId) -> PathBuf {
    directory.join(format!("{process}.more"))
}

/// Fixed width, so that names sort as offsets do.
pub fn named(directory: &Path, process: ProcessId, begins: u64) -> PathBuf {
    more(directory, process).join(format!("{begins:020}.log"))
}

/// The file of the segment that begins there.
pub fn path(directory: &Path, process: ProcessId, begins: u64) -> PathBuf {
    if begins == 0 { first(directory, process) } else { named(directory, process, begins) }
}

/// All segments in order; none when there is no trace of the process.
pub fn list(directory: &Path, process: ProcessId) -> io::Result<Vec<Segment>> {
    let first = first(directory, process);
    if !exists(&first)? {
        return Ok(Vec::new());
    }
    let mut segments = vec![Segment { begins: 0, path: first }];
    match fs::read_dir(more(directory, process)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(entries) => {
            for entry in entries {
                let path = entry?.path();
                let begins = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
                segments.extend(begins.map(|begins| Segment { begins, path }));
            }
        }
    }
    segments.sort();
    Ok(segments)
}

fn exists(path: &Path) -> io::Result<bool> {
    path.try_exists()
}

/// Whether anything was ever written down of a process.
pub fn trace(directory: &Path, process: ProcessId) -> io::Result<bool> {
    exists(&first(directory, process))
}

/// Removes the log of a process; the first segment last, because it is what says that there is one.
pub fn remove(directory: &Path, process: ProcessId) -> io::Result<()> {
    let missing_is_fine = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    missing_is_fine(fs::remove_dir_all(more(directory, process)))?;
    missing_is_fine(fs::remove_file(first(directory, process)))
}
