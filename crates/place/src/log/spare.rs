//! A file that is made before anybody needs it: to make one takes as long as the filesystem has to look for room, to give it a name does not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use stead_domain::ids::ProcessId;

use super::segments;

/// No name of a log, so that nobody takes it for one.
const NAME: &str = "spare";

/// Makes one, and the directory for it. One that was left is used again; only one steward at a time keeps the logs of an environment.
pub fn spare(directory: &Path) -> io::Result<File> {
    let path = directory.join(NAME);
    let open = || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    match open() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(directory)?;
            open()
        }
        outcome => outcome,
    }
}

/// Makes it the log of a process; whether it is. Fails with [`ErrorKind::AlreadyExists`] when there is one.
pub fn name(directory: &Path, process: ProcessId) -> io::Result<bool> {
    match renameat_with(CWD, directory.join(NAME), CWD, segments::first(directory, process), RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::EXIST) => Err(ErrorKind::AlreadyExists.into()),
        // Somebody removed it, or the filesystem cannot: another one is made.
        Err(_) => Ok(false),
    }
}
