//! Layers on top of each other, read and written from outside: what the kernel shows of them, without a mount.
//!
//! Everything in a layer was shaped by whoever worked inside, and in the topmost one somebody may be at work right now. So nothing is reached
//! by a path of several steps and no link is followed: of each layer one directory is held open at a time, names are looked up in that one,
//! and neither the stack nor the number of open files grows with the tree.

pub mod attributes;
pub mod carry;
mod contents;
mod copy;
mod diff;
mod layer;
pub mod marks;
mod merge;
pub mod merged;
pub mod names;
#[cfg(test)]
pub mod tests;
mod text;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use diff::page;
pub use layer::{copy_layer, merge_layers, parts};
use stead_app::PlaceError;
use stead_domain::changes::RelativePath;
pub use text::{Compared, compare_text};

/// Directories that are layers of one, the topmost first. One that is not there is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    pub layers: Vec<PathBuf>,
}

impl Stack {
    pub fn new(layers: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self { layers: layers.into_iter().map(Into::into).collect() }
    }
}

/// Why something could not be done with a stack.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("`{0}`: {1}")]
    At(RelativePath, io::Error),
    /// Two files cannot have the same blocks there.
    #[error("`{0}`: the file system cannot let two files share what they hold")]
    NoSharing(RelativePath),
    #[error("it was stopped")]
    Stopped,
}

impl Trouble {
    /// In a part of a layer's directory.
    pub fn in_part(self, part: &Path) -> Self {
        let whole = |path: RelativePath| {
            let mut whole = RelativePath::default();
            part.iter().for_each(|name| whole.push(name.as_bytes()));
            path.parts().for_each(|name| whole.push(name));
            whole
        };
        match self {
            Self::At(path, error) => Self::At(whole(path), error),
            Self::NoSharing(path) => Self::NoSharing(whole(path)),
            Self::Stopped => Self::Stopped,
        }
    }
}

pub type Result<T, E = Trouble> = std::result::Result<T, E>;

/// Says where something went wrong.
pub trait Place<T> {
    fn at(self, path: &RelativePath) -> Result<T>;
}

impl<T, E: Into<io::Error>> Place<T> for std::result::Result<T, E> {
    fn at(self, path: &RelativePath) -> Result<T> {
        self.map_err(|error| Trouble::At(path.clone(), error.into()))
    }
}

impl From<Trouble> for PlaceError {
    fn from(trouble: Trouble) -> Self {
        let message = trouble.to_string();
        let error = match trouble {
            Trouble::At(_, error) => error,
            Trouble::NoSharing(_) => {
                let suggestion = "stop what runs first, or keep the data directory on XFS or Btrfs".to_owned();
                return Self::InTheWay { message, suggestion };
            }
            Trouble::Stopped => return Self::Failed(message),
        };
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem => Self::StorageFull(message),
            io::ErrorKind::PermissionDenied => {
                let suggestion = "give its owner the permission to read it, from inside the environment, and try again".to_owned();
                Self::InTheWay { message, suggestion }
            }
            io::ErrorKind::InvalidFilename => {
                let suggestion =
                    "move or remove it, from inside the environment, delete checkpoints that hold it, and try again".to_owned();
                Self::InTheWay { message, suggestion }
            }
            // What was looked at became something else meanwhile.
            io::ErrorKind::Other => {
                let suggestion = "try again; if somebody is at work there all the time, put the environment to sleep first".to_owned();
                Self::InTheWay { message, suggestion }
            }
            _ => Self::Failed(message),
        }
    }
}
