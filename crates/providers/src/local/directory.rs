//! An open directory, and what is done in it by name.
//!
//! Whoever works in a workspace may swap a directory for a link at any moment. So nothing below is reached by a path of several steps:
//! one directory is held open, and names are looked up in that one.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, ReadDir};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `O_PATH` of Linux: a handle to a place that needs no permission to read what is there, and never waits for the other end of a pipe.
const PLACE_ONLY: i32 = 0o10_000_000;

pub struct Directory {
    // Held for the path below: it means this directory for as long as the handle is open.
    _handle: File,
    path: PathBuf,
    identity: (u64, u64),
    mode: u32,
}

impl Directory {
    pub fn open(path: &Path) -> Result<Self> {
        let handle = OpenOptions::new().read(true).custom_flags(PLACE_ONLY).open(path)?;
        let metadata = handle.metadata()?;
        if !metadata.is_dir() {
            return Err(Error::from(ErrorKind::NotADirectory));
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        Ok(Self { _handle: handle, path, identity: identity(&metadata), mode: metadata.mode() })
    }

    /// A directory in this one. A link to one is none.
    pub fn enter(&self, name: &OsStr) -> Result<Self> {
        let path = self.join(name);
        let seen = fs::symlink_metadata(&path)?;
        if !seen.is_dir() {
            return Err(Error::from(ErrorKind::NotADirectory));
        }
        let opened = Self::open(&path)?;
        // Opening follows a link that came in between; what was reached is then not what was seen.
        if opened.identity != identity(&seen) {
            return Err(Error::from(ErrorKind::NotADirectory));
        }
        Ok(opened)
    }

    /// The directory that this one is in.
    pub fn leave(&self) -> Result<Self> {
        Self::open(&self.path.join(".."))
    }

    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    pub fn join(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Gives the owner every permission; only for what is thrown away. Where it is refused, the work in the directory says why it failed.
    pub fn unlock(&self) {
        if self.mode & 0o700 != 0o700 {
            let _ = fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700));
        }
    }

    pub fn entries(&self) -> Result<ReadDir> {
        // The dot asks for the permission to look names up, without which a list of them is of no use.
        fs::read_dir(self.path.join("."))
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
