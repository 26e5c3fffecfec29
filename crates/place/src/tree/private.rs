//! What is for programs inside and for nobody else, whoever asks for it by a path: files with secrets, and what the kernel tells of a process,
//! because its variables may hold some.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use stead_domain::files::{FilePath, FileProblem};

use super::trouble::{Result, failure};
use crate::secrets::DIRECTORY;

/// The filesystem that a directory is on, if it is there.
fn device(path: &str) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.dev())
}

/// Whether it lies where secrets do. They have a filesystem of their own, by whatever path one comes to it.
pub fn is_secret(on: u64) -> bool {
    static SECRETS: OnceLock<Option<u64>> = OnceLock::new();
    *SECRETS.get_or_init(|| device(DIRECTORY)) == Some(on)
}

fn tells_of_a_process(file: impl AsFd, on: u64) -> bool {
    static PROCESSES: OnceLock<Option<u64>> = OnceLock::new();
    if *PROCESSES.get_or_init(|| device("/proc")) != Some(on) {
        return false;
    }
    let name = fs::read_link(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()));
    // What cannot be told is taken to be one.
    name.map_or(true, |name| {
        name.as_os_str().as_bytes().strip_prefix(b"/proc/").is_none_or(|name| name.first().is_some_and(u8::is_ascii_digit))
    })
}

/// Refuses a file that nobody but a program inside is to read.
pub fn check(file: impl AsFd, on: u64, path: &FilePath) -> Result<()> {
    if is_secret(on) || tells_of_a_process(file, on) {
        return Err(failure(path, FileProblem::Denied, "it may hold secrets, and is read by programs inside alone"));
    }
    Ok(())
}
