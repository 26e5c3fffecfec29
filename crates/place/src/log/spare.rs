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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::log::{Caps, LogWriter, trace, unfinished};

    #[test]
    fn one_that_was_left_is_used_again_and_is_no_log_before_it_has_a_name() {
        let directory = tempfile::TempDir::new().unwrap();
        let logs = directory.path().join("logs");
        let context = stead_testing::context(1).0;
        let (first, second) = (ProcessId::new(&context), ProcessId::new(&context));
        spare(&logs).unwrap().write_all(b"left").unwrap();
        let made = spare(&logs).unwrap();
        assert_eq!((made.metadata().unwrap().len(), unfinished(&logs).unwrap()), (0, Vec::new()));
        LogWriter::create_from(Some(made), &logs, first, Caps::default()).unwrap();
        assert!(trace(&logs, first).unwrap() && !logs.join(NAME).exists());
        let known = LogWriter::create_from(spare(&logs).ok(), &logs, first, Caps::default()).err().unwrap();
        assert_eq!(known.kind(), ErrorKind::AlreadyExists);
        // Somebody removed it: another one is made.
        let gone = spare(&logs).unwrap();
        fs::remove_file(logs.join(NAME)).unwrap();
        LogWriter::create_from(Some(gone), &logs, second, Caps::default()).unwrap();
        assert_eq!(unfinished(&logs).unwrap().len(), 2);
    }
}
