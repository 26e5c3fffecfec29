//! A layer once more, while its files keep sharing their blocks: what is written to one afterwards is not in the other.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, linkat, mkdirat, open};
use rustix::io::Errno;
use stead_domain::changes::RelativePath;

use super::attributes::{self, Marks};
use super::carry::{self, Content};
use super::names::Names;
use super::{Place, Result, Trouble};
use crate::local::cursor::Cursor;
use crate::local::entry::is_directory;
use crate::local::removal;

/// Copies a directory with everything in it, marks and whiteouts among it, to one that must not be there yet. `links` must not be there either:
/// it holds a name for every file that has several, until all of them are made, and is gone then. Whoever is cut off leaves half of both.
///
/// Refused with [`Trouble::NoSharing`] where the file system cannot let two files share their blocks.
pub fn copy(from: &Path, into: &Path, links: &Path, stopped: &AtomicBool) -> Result<()> {
    let path = RelativePath::default();
    let source = Cursor::open(from).at(&path)?;
    mkdirat(CWD, into, Mode::RWXU).at(&path)?;
    DirBuilder::new().mode(0o700).create(links).at(&path)?;
    let held = open(links, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).at(&path)?;
    let target = Cursor::open(into).at(&path)?;
    Copy { source, target, links: held, path: path.clone(), levels: vec![Names::default()], stopped }.run()?;
    if let Some(cause) = removal::empty(links, stopped).cause {
        return Err(Trouble::At(path, cause));
    }
    std::fs::remove_dir(links).at(&path)
}

struct Copy<'a> {
    source: Cursor,
    target: Cursor,
    links: OwnedFd,
    path: RelativePath,
    levels: Vec<Names>,
    stopped: &'a AtomicBool,
}

impl Copy<'_> {
    fn run(mut self) -> Result<()> {
        while let Some(mut names) = self.levels.pop() {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            let Some(name) = names.next(|| vec![&self.source]).at(&self.path)? else {
                self.finish().at(&self.path)?;
                self.path.pop();
                continue;
            };
            self.levels.push(names);
            let Some(stat) = self.source.look(&name).at(&self.path)? else { continue };
            self.path.push(name.as_bytes());
            if is_directory(&stat) {
                self.enter(&name).at(&self.path)?;
                self.levels.push(Names::default());
                continue;
            }
            match self.put(&name, &stat) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Err(Trouble::NoSharing(self.path)),
                outcome => outcome.at(&self.path)?,
            }
            self.path.pop();
        }
        Ok(())
    }

    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        self.source.enter(name)?;
        mkdirat(self.target.as_fd(), name, Mode::RWXU)?;
        self.target.enter(name)
    }

    fn finish(&mut self) -> io::Result<()> {
        let (source, made) = if self.source.depth() == 0 {
            (self.source.as_fd().try_clone_to_owned()?, self.target.as_fd().try_clone_to_owned()?)
        } else {
            (self.source.leave()?, self.target.leave()?)
        };
        attributes::carry(source.as_fd(), &fstat(&source)?, made.as_fd(), Marks::Kept)
    }

    fn put(&mut self, name: &OsStr, stat: &Stat) -> io::Result<()> {
        let (from, to) = (self.source.as_fd(), self.target.as_fd());
        if stat.st_nlink < 2 {
            carry::carry(from, name, stat, to, Content::Shared)?;
            return Ok(());
        }
        let known = format!("{:x}-{:x}", stat.st_dev, stat.st_ino);
        match linkat(&self.links, known.as_str(), to, name, AtFlags::empty()) {
            Err(Errno::NOENT) => {
                carry::carry(from, name, stat, to, Content::Shared)?;
                Ok(linkat(to, name, &self.links, known.as_str(), AtFlags::empty())?)
            }
            // As many as the file system allows.
            Err(Errno::MLINK) => carry::carry(from, name, stat, to, Content::Shared).map(drop),
            outcome => Ok(outcome?),
        }
    }
}
