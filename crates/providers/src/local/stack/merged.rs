//! A walk through a stack as the kernel shows it: names of the upper layers hide those below, directories are seen together.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Stat;
use stead_domain::changes::RelativePath;

use super::names::Names;
use super::{Stack, marks};
use crate::local::cursor::{Cursor, open_file};
use crate::local::entry::is_directory;

/// One directory of a stack.
pub struct Merged {
    /// Each stands in the present directory, or further up if it has no part in this one.
    layers: Vec<Cursor>,
    levels: Vec<Level>,
}

#[derive(Default)]
struct Level {
    /// The topmost first.
    parts: Vec<Part>,
    /// Layers further down have no part in this, whatever they have.
    is_closed: bool,
}

/// A layer's directory that another one may be seen together with.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    layer: usize,
    directory: (u64, u64),
}

impl Part {
    pub fn layer(&self) -> usize {
        self.layer
    }

    /// Whether this is the very same directory of the very same layer.
    pub fn is(&self, other: &Self) -> bool {
        self.directory == other.directory
    }
}

/// What a name is, and which layer says so.
#[derive(Clone, Copy)]
pub struct Entry {
    pub stat: Stat,
    pub layer: usize,
}

pub enum Found {
    Nothing,
    /// A layer says that there is nothing, whatever those below have.
    Whiteout(Entry),
    Entry(Entry),
}

impl Found {
    pub fn entry(self) -> Option<Entry> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::Nothing | Self::Whiteout(_) => None,
        }
    }
}

impl Merged {
    pub fn open(stack: &Stack) -> io::Result<Self> {
        let mut layers = Vec::new();
        let mut parts = Vec::new();
        for path in &stack.layers {
            match Cursor::open(path) {
                Ok(cursor) => {
                    parts.push(Part { layer: layers.len(), directory: cursor.identity()? });
                    layers.push(cursor);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        // The uppermost directories are always seen together: the kernel asks none of them whether it hides the others.
        Ok(Self { layers, levels: vec![Level { parts, is_closed: false }] })
    }

    pub fn depth(&self) -> usize {
        self.levels.len().saturating_sub(1)
    }

    /// What the present directory is made of, the topmost first.
    pub fn parts(&self) -> &[Part] {
        self.levels.last().map_or(&[], |level| &level.parts)
    }

    /// Whether what lies below all these layers has no part in the present directory.
    pub fn is_closed(&self) -> bool {
        self.levels.last().is_some_and(|level| level.is_closed)
    }

    /// Where a part of the present directory is held open.
    pub fn cursor(&self, part: &Part) -> Option<&Cursor> {
        self.layers.get(part.layer)
    }

    /// The present directory in the layer that an entry was found in.
    pub fn holder(&self, entry: &Entry) -> io::Result<BorrowedFd<'_>> {
        self.layers.get(entry.layer).map(Cursor::as_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The next name, also one that is only there to hide another.
    pub fn next_name(&self, names: &mut Names) -> io::Result<Option<OsString>> {
        names.next(|| self.parts().iter().filter_map(|part| self.cursor(part)).collect())
    }

    /// What is seen under a name of the present directory.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<Entry>> {
        Ok(self.find(name)?.entry())
    }

    pub fn find(&self, name: &OsStr) -> io::Result<Found> {
        self.find_in(self.parts(), name)
    }

    /// What would be seen if the uppermost layers, up to this one, had nothing in the present directory.
    pub fn find_below(&self, layer: usize, name: &OsStr) -> io::Result<Found> {
        let parts = self.parts();
        let first = parts.iter().position(|part| part.layer > layer).unwrap_or(parts.len());
        self.find_in(parts.get(first..).unwrap_or_default(), name)
    }

    fn find_in(&self, parts: &[Part], name: &OsStr) -> io::Result<Found> {
        for part in parts {
            let Some(cursor) = self.cursor(part) else { continue };
            if let Some(stat) = cursor.look(name)? {
                let entry = Entry { stat, layer: part.layer };
                let is_whiteout = marks::is_whiteout(cursor, name, &stat)?;
                return Ok(if is_whiteout { Found::Whiteout(entry) } else { Found::Entry(entry) });
            }
        }
        Ok(Found::Nothing)
    }

    /// For reading, without waiting for anybody. What it is must be asked again of what was opened.
    pub fn open_file(&self, name: &OsStr, entry: &Entry) -> io::Result<OwnedFd> {
        open_file(self.holder(entry)?, name)
    }

    /// Into a directory, in every layer that has a part in it.
    pub fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let Some(level) = self.levels.last() else { return Err(io::ErrorKind::NotFound.into()) };
        let mut next = Level { parts: Vec::new(), is_closed: level.is_closed };
        for part in &level.parts {
            let Some(cursor) = self.layers.get_mut(part.layer) else { continue };
            match enter(cursor, name) {
                Ok(Below::Nothing) => {}
                Ok(Below::Hidden) => {
                    next.is_closed = true;
                    break;
                }
                Ok(Below::Directory { is_opaque }) => {
                    next.parts.push(Part { layer: part.layer, directory: cursor.identity()? });
                    if is_opaque {
                        next.is_closed = true;
                        break;
                    }
                }
                Err(error) => {
                    self.levels.push(next);
                    self.leave()?;
                    return Err(error);
                }
            }
        }
        if next.parts.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.levels.push(next);
        Ok(())
    }

    /// Back up, in every layer that had a part in the present directory. Gives the topmost layer's, if it had one.
    pub fn leave(&mut self) -> io::Result<Option<OwnedFd>> {
        if self.levels.len() < 2 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let left = self.levels.pop().unwrap_or_default();
        let mut topmost = None;
        for part in &left.parts {
            if let Some(cursor) = self.layers.get_mut(part.layer) {
                let directory = cursor.leave()?;
                if part.layer == 0 {
                    topmost = Some(directory);
                }
            }
        }
        Ok(topmost)
    }

    /// Goes from the top to where a path is, and gives its last name with what is there.
    pub fn reach<'a>(&mut self, path: &'a RelativePath) -> io::Result<Option<(&'a OsStr, Entry)>> {
        let mut parts = path.parts().map(OsStr::from_bytes).peekable();
        while let Some(part) = parts.next() {
            let Some(entry) = self.look(part)? else { return Ok(None) };
            if parts.peek().is_none() {
                return Ok(Some((part, entry)));
            }
            if !is_directory(&entry.stat) {
                return Ok(None);
            }
            self.enter(part)?;
        }
        Ok(None)
    }
}

/// What one layer has of a directory.
enum Below {
    Nothing,
    /// Not a directory: layers below have no part in it.
    Hidden,
    Directory {
        is_opaque: bool,
    },
}

fn enter(cursor: &mut Cursor, name: &OsStr) -> io::Result<Below> {
    let Some(stat) = cursor.look(name)? else { return Ok(Below::Nothing) };
    if !is_directory(&stat) {
        return Ok(Below::Hidden);
    }
    cursor.enter(name)?;
    match marks::is_opaque(cursor.as_fd()) {
        Ok(is_opaque) => Ok(Below::Directory { is_opaque }),
        Err(error) => {
            cursor.leave()?;
            Err(error)
        }
    }
}
