//! What was written beside a workspace: the layer of `workspace_access: cow`, seen, carried over, or thrown away.
//!
//! Everything in the layer was shaped by whoever worked inside. So nothing is reached by a path of several steps and no link is followed: one
//! directory is held open at a time, names are looked up in that one, and neither the stack nor the number of open files grows with the tree.

mod apply;
mod copy;
mod list;
#[cfg(test)]
mod over_stacks;
mod pair;
mod settle;
#[cfg(test)]
mod tests;
mod workspace;

use std::io;
use std::path::Path;

use stead_app::PlaceError;
use stead_domain::changes::RelativePath;

use super::stack::Stack;

pub use list::list;
pub use settle::{drop_all, drop_some, keep_all, keep_some};

/// A layer, and the workspace that it lies over.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// Holds `upper`, where the changes are, and for a moment what was taken out of it.
    pub directory: &'a Path,
    /// The topmost directory takes what is kept.
    pub workspace: &'a Stack,
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("`{0}`: {1}")]
    At(RelativePath, io::Error),
    /// Kept or thrown away only with what it lies in.
    #[error("`{0}` was replaced as a whole")]
    Replaced(RelativePath),
    #[error("`{0}` is a device")]
    Device(RelativePath),
    /// It would be removed with what is in it.
    #[error("a file system of the host is mounted at or below `{0}`")]
    Mounted(RelativePath),
}

pub type Result<T, E = Obstacle> = std::result::Result<T, E>;

impl From<rustix::io::Errno> for Obstacle {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl Obstacle {
    fn at(self, path: &RelativePath) -> Self {
        match self {
            Self::Io(error) if error.raw_os_error() == Some(rustix::io::Errno::XDEV.raw_os_error()) => Self::Mounted(path.clone()),
            Self::Io(error) => Self::At(path.clone(), error),
            other => other,
        }
    }
}

impl From<Obstacle> for PlaceError {
    fn from(obstacle: Obstacle) -> Self {
        let message = obstacle.to_string();
        let in_the_way = |suggestion: &str| Self::InTheWay { message: message.clone(), suggestion: suggestion.to_owned() };
        match &obstacle {
            Obstacle::Io(error) | Obstacle::At(_, error) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem => Self::StorageFull(message),
                io::ErrorKind::PermissionDenied => in_the_way("give the user that runs the server the permission, and try again"),
                _ => Self::Failed(message),
            },
            Obstacle::Replaced(path) => in_the_way(&format!("name `{path}` itself")),
            Obstacle::Device(_) => in_the_way("drop it, and keep the rest"),
            Obstacle::Mounted(_) => in_the_way("unmount it, or drop the change"),
        }
    }
}
