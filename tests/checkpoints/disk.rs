//! A filesystem of the test's own, in a file, with a server's data directory on it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::support::Server;

/// A filesystem in a file, mounted for as long as this is there.
pub struct Disk {
    pub at: PathBuf,
    /// Where the file lies, if that goes with it.
    file: Option<tempfile::TempDir>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Shares no blocks.
    Ext4,
    Xfs,
    Btrfs,
}

/// Those on which files share their blocks.
pub const SHARING: [Kind; 2] = [Kind::Xfs, Kind::Btrfs];

impl Kind {
    fn make(self, file: &Path) -> Result<(), String> {
        let file = file.display().to_string();
        match self {
            Self::Ext4 => run("mkfs.ext4", &["-q", "-F", "-O", "has_journal", &file]),
            Self::Xfs => run("mkfs.xfs", &["-q", "-m", "reflink=1", &file]),
            Self::Btrfs => run("mkfs.btrfs", &["-q", &file]),
        }
    }
}

impl Disk {
    pub fn make(kind: Kind, file: &Path, size: u64) -> Result<(), String> {
        std::fs::File::create(file).unwrap().set_len(size).unwrap();
        kind.make(file)
    }

    pub fn mount(file: &Path, at: PathBuf, options: &str) -> Result<Self, String> {
        std::fs::create_dir(&at).unwrap();
        run("mount", &["-o", &format!("loop{options}"), &file.display().to_string(), &at.display().to_string()])?;
        Ok(Self { at, file: None })
    }

    /// A new one; none where this machine cannot make or mount it, and then that is said.
    #[expect(clippy::print_stderr, reason = "what was not run must be seen")]
    pub fn new(kind: Kind, size: u64) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
        let file = directory.path().join("disk");
        let made = Self::make(kind, &file, size).and_then(|()| Self::mount(&file, directory.path().join("mounted"), ""));
        match made {
            Ok(mut disk) => {
                disk.file = Some(directory);
                Some(disk)
            }
            Err(error) => {
                eprintln!("NOT RUN: this machine mounts no {kind:?} in a file: {error}");
                None
            }
        }
    }

    /// The blocks that are in use, in bytes.
    pub fn used(&self) -> u64 {
        rustix::fs::sync();
        let told = rustix::fs::statvfs(&self.at).unwrap();
        (told.f_blocks - told.f_bfree) * told.f_frsize
    }

    pub fn server(&self) -> Server {
        // Always of one name, so that the second server finds what the first one left.
        let mut builder = tempfile::Builder::new();
        builder.prefix("data").rand_bytes(0).disable_cleanup(true);
        let directory = match builder.tempdir_in(&self.at) {
            Ok(directory) => directory,
            Err(_) => {
                let found = self.at.join("data");
                std::fs::rename(&found, self.at.join("kept")).unwrap();
                let directory = builder.tempdir_in(&self.at).unwrap();
                std::fs::remove_dir(directory.path()).unwrap();
                std::fs::rename(self.at.join("kept"), directory.path()).unwrap();
                directory
            }
        };
        Server::builder().on(Arc::new(directory)).with(&["--rate-limit", "0"]).start()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        crate::support::beside::end(&self.at);
        for _ in 0..200 {
            if run("umount", &[&self.at.display().to_string()]).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        // What is mounted is not to be removed with the directory that it is mounted in.
        self.file.take().map(tempfile::TempDir::keep);
        assert!(std::thread::panicking(), "{} is still mounted", self.at.display());
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    match Command::new(program).args(arguments).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
