//! The layer and the workspace, walked together.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use stead_domain::changes::RelativePath;

use super::workspace::Workspace;
use super::{Layer, Result};
use crate::local::cursor::Cursor;
use crate::local::entry::file_type;
use crate::local::stack::marks;

pub struct Pair {
    pub upper: Cursor,
    pub lower: Workspace,
    pub path: RelativePath,
    levels: Vec<Level>,
}

#[derive(Clone, Copy)]
struct Level {
    /// Whether the workspace has this directory.
    has_lower: bool,
    /// What the workspace has here is not seen inside.
    hides: bool,
}

impl Pair {
    /// None when nothing was ever written.
    pub fn open(layer: Layer<'_>) -> Result<Option<Self>> {
        let upper = match Cursor::open(&layer.directory.join("upper")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            outcome => outcome?,
        };
        let lower = Workspace::open(layer.workspace)?;
        let levels = vec![Level { has_lower: true, hides: false }];
        Ok(Some(Self { upper, lower, path: RelativePath::default(), levels }))
    }

    fn level(&self) -> Level {
        self.levels.last().copied().unwrap_or(Level { has_lower: false, hides: false })
    }

    pub fn depth(&self) -> usize {
        self.upper.depth()
    }

    pub fn hides(&self) -> bool {
        self.level().hides
    }

    pub fn has_lower(&self) -> bool {
        self.level().has_lower
    }

    /// What the workspace has under a name, seen or not.
    pub fn look_below(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        if self.has_lower() { self.lower.look(name) } else { Ok(None) }
    }

    pub fn names_below(&self) -> io::Result<Vec<OsString>> {
        if self.has_lower() { self.lower.names() } else { Ok(Vec::new()) }
    }

    pub fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        self.enter_by(name, Workspace::enter)
    }

    /// The same where something is going to be written into the workspace.
    pub fn enter_to_write(&mut self, name: &OsStr) -> io::Result<()> {
        self.enter_by(name, Workspace::enter_to_write)
    }

    fn enter_by(&mut self, name: &OsStr, enter: fn(&mut Workspace, &OsStr) -> io::Result<()>) -> io::Result<()> {
        let above = self.level();
        let has_lower = self.look_below(name)?.is_some_and(|stat| file_type(&stat) == FileType::Directory);
        self.upper.enter(name)?;
        if has_lower && let Err(error) = enter(&mut self.lower, name) {
            self.upper.leave()?;
            return Err(error);
        }
        let hides = above.hides || marks::is_opaque(self.upper.as_fd())?;
        self.levels.push(Level { has_lower, hides });
        self.path.push(name.as_encoded_bytes());
        Ok(())
    }

    /// Goes back up, and gives the workspace's directory that was left, if there was one that can be written to.
    pub fn leave(&mut self) -> io::Result<Option<OwnedFd>> {
        self.upper.leave()?;
        let left = if self.has_lower() { self.lower.leave()? } else { None };
        self.levels.pop();
        self.path.pop();
        Ok(left)
    }

    /// Whether what the layer has under a name only says that nothing is there.
    pub fn is_whiteout(&self, name: &OsStr, stat: &Stat) -> io::Result<bool> {
        marks::is_whiteout(&self.upper, name, stat)
    }

    /// From now on the layer's present directory hides nothing.
    pub fn reveal(&mut self) -> io::Result<()> {
        match rustix::fs::fremovexattr(self.upper.as_fd(), marks::OPAQUE) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(level) = self.levels.last_mut() {
            level.hides = false;
        }
        Ok(())
    }
}
