//! The workspace below the layer: a directory, or a stack of which the topmost directory takes what is written.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, RenameFlags, Stat, Uid, XattrFlags, chownat, fsetxattr, mkdirat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::{Obstacle, Result};
use crate::local::cursor::Cursor;
use crate::local::entry::{file_type, is_directory};
use crate::local::removal;
use crate::local::stack::attributes::{self, Marks};
use crate::local::stack::merged::{Entry, Merged};
use crate::local::stack::names::Names;
use crate::local::stack::{Stack, carry, marks};

/// What is being written, before it gets its name. One that a crash left is removed by the repetition.
pub const UNFINISHED: &str = ".stead-keep-7d1c40.new";
/// The layer that takes what is written.
const TOPMOST: usize = 0;

pub struct Workspace {
    seen: Merged,
}

impl Workspace {
    /// The topmost directory must be there.
    pub fn open(stack: &Stack) -> io::Result<Self> {
        Cursor::open(stack.layers.first().ok_or(io::ErrorKind::NotFound)?)?;
        Ok(Self { seen: Merged::open(stack)? })
    }

    /// What is seen under a name.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        Ok(self.seen.look(name)?.map(|entry| entry.stat))
    }

    /// Those that something is seen under, in the order of their bytes.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let (mut ahead, mut seen) = (Names::default(), Vec::new());
        while let Some(name) = self.seen.next_name(&mut ahead)? {
            if self.seen.look(&name)?.is_some() {
                seen.push(name);
            }
        }
        Ok(seen)
    }

    pub fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        self.seen.enter(name)
    }

    /// The same where something is going to be written: the topmost layer gets the directory if only others have it.
    pub fn enter_to_write(&mut self, name: &OsStr) -> io::Result<()> {
        if let Some(entry) = self.seen.look(name)?
            && is_directory(&entry.stat)
            && entry.layer != TOPMOST
        {
            self.carry_up(name, &entry)?;
        }
        self.seen.enter(name)
    }

    /// Goes back up, and gives the topmost layer's directory that was left, if it has that one.
    pub fn leave(&mut self) -> io::Result<Option<OwnedFd>> {
        self.seen.leave()
    }

    /// The present directory of the layer that takes what is written.
    pub fn written(&self) -> io::Result<&Cursor> {
        let part = self.seen.parts().iter().find(|part| part.layer() == TOPMOST);
        part.and_then(|part| self.seen.cursor(part)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// A directory as the other layers have it, and with nothing in it.
    fn carry_up(&self, name: &OsStr, entry: &Entry) -> io::Result<()> {
        let written = self.written()?;
        let source = self.seen.open_file(name, entry)?;
        self.clear()?;
        mkdirat(written.as_fd(), UNFINISHED, Mode::RWXU)?;
        let made = written.below(OsStr::new(UNFINISHED))?;
        attributes::carry(source.as_fd(), &entry.stat, made.as_fd(), Marks::Left)?;
        Ok(renameat(written.as_fd(), UNFINISHED, written.as_fd(), name)?)
    }

    /// A new directory where nothing is seen, that only we look into until it is finished. What other layers have under its name stays hidden
    /// at every moment, or whoever is cut off would find that in it.
    pub fn make_directory(&self, name: &OsStr, owner: Option<(Uid, Gid)>) -> io::Result<()> {
        let written = self.written()?;
        self.clear()?;
        mkdirat(written.as_fd(), UNFINISHED, Mode::RWXU)?;
        if let Some((user, group)) = owner {
            chownat(written.as_fd(), UNFINISHED, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if self.is_below(name)? {
            fsetxattr(written.below(OsStr::new(UNFINISHED))?.as_fd(), marks::OPAQUE, b"y", XattrFlags::empty())?;
        }
        if written.look(name)?.is_none() {
            return Ok(renameat(written.as_fd(), UNFINISHED, written.as_fd(), name)?);
        }
        // A whiteout.
        renameat_with(written.as_fd(), UNFINISHED, written.as_fd(), name, RenameFlags::EXCHANGE)?;
        self.clear()
    }

    /// Gives what was written its name, in place of what is there.
    pub fn finish(&self, name: &OsStr) -> Result<()> {
        let written = self.written()?;
        // A directory gives way only when it is gone.
        if written.look(name)?.is_some_and(|there| is_directory(&there)) {
            remove(written, name)?;
        }
        Ok(renameat(written.as_fd(), UNFINISHED, written.as_fd(), name)?)
    }

    /// Removes what is seen under a name, whatever it is. What is mounted in it is not touched, and stands in the way.
    pub fn remove(&self, name: &OsStr) -> Result<()> {
        if self.look(name)?.is_none() {
            return Ok(());
        }
        if !self.is_below(name)? {
            return remove(self.written()?, name);
        }
        self.clear()?;
        carry::whiteout(self.written()?.as_fd(), OsStr::new(UNFINISHED))?;
        self.finish(name)
    }

    /// Whether other layers have something under a name that would be seen without the topmost one.
    fn is_below(&self, name: &OsStr) -> io::Result<bool> {
        Ok(self.seen.find_below(TOPMOST, name)?.entry().is_some())
    }

    /// Removes what somebody who was cut off left in the present directory.
    pub fn clear(&self) -> io::Result<()> {
        let Ok(written) = self.written() else { return Ok(()) };
        match unlinkat(written.as_fd(), UNFINISHED, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // One of ours is empty.
            Err(Errno::ISDIR) => Ok(unlinkat(written.as_fd(), UNFINISHED, AtFlags::REMOVEDIR)?),
            Err(error) => Err(error.into()),
        }
    }
}

/// Removes what one directory has under a name.
fn remove(from: &Cursor, name: &OsStr) -> Result<()> {
    let Some(there) = from.look(name)? else { return Ok(()) };
    if file_type(&there) != FileType::Directory {
        unlinkat(from.as_fd(), name, AtFlags::empty())?;
        return Ok(());
    }
    let directory = from.below(name)?;
    check_for_mounts(from.below(name)?)?;
    let held = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
    let left = removal::empty(Path::new(&held), &AtomicBool::new(false));
    if left.count > 0 {
        return Err(Obstacle::Io(left.cause.unwrap_or_else(|| io::Error::other("something in it cannot be removed"))));
    }
    unlinkat(from.as_fd(), name, AtFlags::REMOVEDIR)?;
    Ok(())
}

/// An environment sees no mounts of the host below its workspace, so it cannot have meant to remove what is in them.
fn check_for_mounts(mut at: Cursor) -> Result<()> {
    let directories = |at: &Cursor| -> io::Result<Vec<std::ffi::OsString>> {
        let mut names = at.names()?;
        names.retain(|name| at.look(name).ok().flatten().is_some_and(|stat| file_type(&stat) == FileType::Directory));
        Ok(names)
    };
    let mut levels = vec![directories(&at)?];
    while let Some(level) = levels.last_mut() {
        match level.pop() {
            Some(name) => match at.enter(&name) {
                Ok(()) => levels.push(directories(&at).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(error.into()),
            },
            None => {
                levels.pop();
                if at.depth() > 0 {
                    at.leave()?;
                }
            }
        }
    }
    Ok(())
}
