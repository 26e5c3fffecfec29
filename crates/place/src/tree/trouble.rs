//! Why something with files failed, from what the kernel said.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use stead_domain::files::{FileFailure, FilePath, FileProblem};

pub type Result<T, E = FileFailure> = std::result::Result<T, E>;

pub fn as_path(path: &FilePath) -> &Path {
    Path::new(OsStr::from_bytes(path.as_bytes()))
}

pub fn failure(path: &FilePath, why: FileProblem, said: impl ToString) -> FileFailure {
    FileFailure { why, path: path.clone(), said: said.to_string() }
}

/// What belongs to a path fails with that path.
pub trait At<T> {
    fn at(self, path: &FilePath) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &FilePath) -> Result<T> {
        self.map_err(|error| failure(path, problem(&error), &error))
    }
}

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, path: &FilePath) -> Result<T> {
        self.map_err(io::Error::from).at(path)
    }
}

fn problem(error: &io::Error) -> FileProblem {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => FileProblem::NotFound,
        Some(Errno::NOTDIR | Errno::LOOP) => FileProblem::NotADirectory,
        Some(Errno::ISDIR) => FileProblem::IsADirectory,
        Some(Errno::EXIST) => FileProblem::Exists,
        Some(Errno::NOTEMPTY) => FileProblem::NotEmpty,
        Some(Errno::ACCESS | Errno::PERM) => FileProblem::Denied,
        Some(Errno::ROFS) => FileProblem::ReadOnly,
        Some(Errno::NOSPC | Errno::DQUOT) => FileProblem::Full,
        Some(Errno::NAMETOOLONG) => FileProblem::TooLong,
        // A socket, or a pipe that nobody reads.
        Some(Errno::NXIO) => FileProblem::NotAFile,
        _ => FileProblem::Other,
    }
}
