//! Which processes were asked for: a line each, written before the process is. To make a file waits for whatever the disk is writing at that
//! moment, to append a line does not; so the log itself is made while the program is being started.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use stead_domain::ids::ProcessId;

use crate::log;

const NAME: &str = "starts";

pub struct Starts {
    file: File,
    /// Asked for by a steward before this one, and never seen again.
    earlier: HashSet<ProcessId>,
}

impl Starts {
    /// Opens the list beside the logs. Those that have a log are told by that, and forgotten here.
    pub fn open(logs: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(logs.join(NAME))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut earlier = HashSet::new();
        for process in text.lines().filter_map(|line| line.parse().ok()) {
            if !log::trace(logs, process)? {
                earlier.insert(process);
            }
        }
        let lines: String = earlier.iter().map(|process| format!("{process}\n")).collect();
        if lines.len() != text.len() {
            file.set_len(0)?;
            file.write_all(lines.as_bytes())?;
        }
        Ok(Self { file, earlier })
    }

    /// Writes a process down, before it is asked for.
    pub fn note(&mut self, process: ProcessId) -> io::Result<()> {
        self.file.write_all(format!("{process}\n").as_bytes())
    }

    /// Whether it was asked for by somebody who is gone: it may have begun, and must not begin again.
    pub fn knows(&self, process: ProcessId) -> bool {
        self.earlier.contains(&process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Caps, LogWriter};

    #[test]
    fn what_has_no_log_is_remembered() {
        let directory = tempfile::TempDir::new().unwrap();
        let context = stead_testing::context(1).0;
        let (logged, lost) = (ProcessId::new(&context), ProcessId::new(&context));
        let mut starts = Starts::open(directory.path()).unwrap();
        for process in [logged, lost] {
            starts.note(process).unwrap();
            assert!(!starts.knows(process), "this one keeps it itself");
        }
        LogWriter::create(directory.path(), logged, Caps::default()).unwrap();
        for _ in 0..2 {
            let again = Starts::open(directory.path()).unwrap();
            assert!(again.knows(lost) && !again.knows(logged));
        }
        assert_eq!(std::fs::read_to_string(directory.path().join(NAME)).unwrap(), format!("{lost}\n"));
    }
}
