//! The files of a hierarchy: directories that are groups, and what stands in them.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::{Result, Step};

/// Whether it was not there before.
pub fn make_directory(path: &Path) -> Result<bool> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path),
        outcome => outcome,
    }
    .step(format!("make {}", path.display()))
    .map(|()| true)
}

pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).step(format!("read {}", path.display()))
}

/// One write, as these files want it, and never a new file.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).step(format!("open {}", path.display()))?;
    rustix::io::write(&file, text.as_bytes()).map(drop).step(format!("write {text} to {}", path.display()))
}

/// What stands behind a name, in a file with a line for each; zero where it is not there.
pub fn field(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok()).unwrap_or(0)
}

/// What a file with one number says; zero where it says none.
pub fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}
