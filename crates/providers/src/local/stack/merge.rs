//! Several layers made into one that shows the same. Files are not copied, they get one more name: what is merged may be removed afterwards.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Stat, XattrFlags, fsetxattr, fstat, linkat, mkdirat};
use rustix::io::Errno;
use stead_domain::changes::RelativePath;

use super::attributes::{self, Marks};
use super::carry::{self, Content};
use super::merged::{Entry, Found, Merged};
use super::names::Names;
use super::{Place, Result, Stack, Trouble, marks};
use crate::local::cursor::{Cursor, identity};
use crate::local::entry::{file_type, is_directory};

/// Files with more names than the file system gives to one, that are remembered so that they do not become a file for each name.
const MOST_LINKS: usize = 256;

/// What lies below the layers that are merged.
#[derive(Clone, Copy)]
pub enum Below<'a> {
    /// These reach the bottom: nothing has to be hidden.
    Nothing,
    /// Hidden is what these have, and what they may have tomorrow, wherever a directory is seen together with one of theirs. Elsewhere the
    /// kernel would list a whiteout inside, as a name that is not there.
    Layers(&'a Stack),
}

/// Makes a directory, which must not be there yet. Whoever is cut off leaves half of one behind.
pub fn merge(layers: &Stack, below: Below<'_>, into: &Path, stopped: &AtomicBool) -> Result<()> {
    let path = RelativePath::default();
    let merged = Merged::open(layers).at(&path)?;
    let (below, has_below) = match below {
        Below::Nothing => (Merged::open(&Stack::default()).at(&path)?, false),
        Below::Layers(stack) => (Merged::open(stack).at(&path)?, true),
    };
    mkdirat(CWD, into, Mode::RWXU).at(&path)?;
    let target = Cursor::open(into).at(&path)?;
    Merge { merged, below, has_below, target, path, levels: vec![Names::default()], copies: HashMap::new(), stopped }.run()
}

struct Merge<'a> {
    merged: Merged,
    /// Stands further up where it has no part in the present directory.
    below: Merged,
    has_below: bool,
    target: Cursor,
    path: RelativePath,
    levels: Vec<Names>,
    copies: HashMap<(u64, u64), OwnedFd>,
    stopped: &'a AtomicBool,
}

impl Merge<'_> {
    fn run(mut self) -> Result<()> {
        while let Some(mut names) = self.levels.pop() {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            let Some(name) = self.merged.next_name(&mut names).at(&self.path)? else {
                self.finish().at(&self.path)?;
                self.path.pop();
                continue;
            };
            self.levels.push(names);
            let found = self.merged.find(&name).at(&self.path)?;
            self.path.push(name.as_bytes());
            if self.put(&name, found).at(&self.path)? {
                self.levels.push(Names::default());
            } else {
                self.path.pop();
            }
        }
        Ok(())
    }

    /// Puts what was found into the present directory. Whether it is one that was entered.
    fn put(&mut self, name: &OsStr, found: Found) -> io::Result<bool> {
        match found {
            Found::Nothing => {}
            Found::Whiteout(entry) => {
                if self.sees_below() {
                    self.whiteout(name, &entry)?;
                }
            }
            Found::Entry(entry) if is_directory(&entry.stat) => {
                self.enter(name)?;
                return Ok(true);
            }
            Found::Entry(entry) => self.link(name, &entry)?,
        }
        Ok(false)
    }

    /// Whether the present directory is also made of what lies below.
    fn sees_below(&self) -> bool {
        !self.merged.is_closed() && self.below.depth() == self.merged.depth() && !self.below.parts().is_empty()
    }

    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let (saw_below, was_closed) = (self.sees_below(), self.merged.is_closed());
        self.merged.enter(name)?;
        if saw_below && self.below.look(name)?.is_some_and(|entry| is_directory(&entry.stat)) {
            self.below.enter(name)?;
        }
        mkdirat(self.target.as_fd(), name, Mode::RWXU)?;
        self.target.enter(name)?;
        if self.has_below && self.merged.is_closed() && !was_closed {
            fsetxattr(self.target.as_fd(), marks::OPAQUE, b"y", XattrFlags::empty())?;
        }
        Ok(())
    }

    /// Gives the present directory what the topmost one of its name has, and leaves it.
    fn finish(&mut self) -> io::Result<()> {
        let topmost = self.merged.parts().first().and_then(|part| self.merged.cursor(part));
        let topmost = topmost.map(|cursor| cursor.as_fd().try_clone_to_owned()).transpose()?;
        let made = if self.merged.depth() == 0 {
            self.target.as_fd().try_clone_to_owned()?
        } else {
            if self.below.depth() == self.merged.depth() {
                self.below.leave()?;
            }
            self.merged.leave()?;
            self.target.leave()?
        };
        match topmost {
            Some(topmost) => attributes::carry(topmost.as_fd(), &fstat(&topmost)?, made.as_fd(), Marks::Left),
            None => Ok(()),
        }
    }

    fn whiteout(&self, name: &OsStr, entry: &Entry) -> io::Result<()> {
        // One that is written as a file would be listed, unless its directory said that it has such.
        let is_device = file_type(&entry.stat) == FileType::CharacterDevice;
        if is_device && linkat(self.merged.holder(entry)?, name, self.target.as_fd(), name, AtFlags::empty()).is_ok() {
            return Ok(());
        }
        carry::whiteout(self.target.as_fd(), name)
    }

    fn link(&mut self, name: &OsStr, entry: &Entry) -> io::Result<()> {
        let (from, to) = (self.merged.holder(entry)?, self.target.as_fd());
        match linkat(from, name, to, name, AtFlags::empty()) {
            // As many names as the file system allows, or a kernel that is strict about whose file it is.
            Err(Errno::MLINK | Errno::PERM | Errno::XDEV | Errno::OPNOTSUPP) => {}
            outcome => return Ok(outcome?),
        }
        if self.link_copy(name, &entry.stat) {
            return Ok(());
        }
        let made = carry::carry(from, name, &entry.stat, to, Content::Copied)?;
        if let Some(made) = made.filter(|_| entry.stat.st_nlink > 1) {
            let identity = identity(&entry.stat);
            if self.copies.len() < MOST_LINKS || self.copies.contains_key(&identity) {
                self.copies.insert(identity, made);
            }
        }
        Ok(())
    }

    /// One more name for a copy that had to be made already.
    fn link_copy(&self, name: &OsStr, stat: &Stat) -> bool {
        let Some(copy) = self.copies.get(&identity(stat)) else { return false };
        let copy = format!("/proc/self/fd/{}", copy.as_raw_fd());
        linkat(CWD, copy.as_str(), self.target.as_fd(), name, AtFlags::SYMLINK_FOLLOW).is_ok()
    }
}
