//! A tree out of a tar archive. Whatever the archive says, it stays below one directory, and no file is there before it is whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};

use bytes::Bytes;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timestamps, fchmod, futimens, linkat, mknodat, openat, renameat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use stead_domain::files::{FileFailure, FilePath, FileProblem};
use tar::EntryType;

use super::Moved;
use super::below::{Below, kind, names};
use super::tape::{Entry, Tape};
use super::trouble::{At, Result, as_path, failure};

/// Nothing that is brought in runs as somebody else.
const MODES: u32 = 0o1777;
/// Directories whose mode and time wait until they are full. Beyond that the oldest do not wait any more: memory has an end.
const WAITING: usize = 1 << 16;

/// Unpacks what a source gives, piece by piece, into a directory that is made if it is not there.
pub fn unpack(path: &FilePath, source: impl FnMut() -> io::Result<Option<Bytes>>) -> Result<Moved> {
    let is_new = fs::symlink_metadata(as_path(path)).is_err();
    fs::create_dir_all(as_path(path)).at(path)?;
    let base = File::open(as_path(path)).at(path)?;
    if !base.metadata().at(path)?.is_dir() {
        return Err(failure(path, FileProblem::NotADirectory, ""));
    }
    let mut unpacking = Unpacking { below: Below::new(base.into()), waiting: Vec::new(), is_new, buffer: 0 };
    let mut tape = Tape::new(source, path);
    let (mut count, mut size) = (0, 0);
    while let Some(entry) = tape.next()? {
        unpacking.take(&entry, &mut tape)?;
        count += 1;
        size += if entry.kind.is_file() { entry.size } else { 0 };
    }
    unpacking.settle(0)?;
    tape.drain()?;
    Ok(Moved { count, size })
}

struct Unpacking {
    below: Below,
    waiting: Vec<(Vec<u8>, u32, Timestamps)>,
    /// Whether the directory that all lies in was made for it.
    is_new: bool,
    /// Names that were taken for what is not finished.
    buffer: u64,
}

impl Unpacking {
    fn take(&mut self, entry: &Entry, tape: &mut Tape<impl FnMut() -> io::Result<Option<Bytes>>>) -> Result<()> {
        let path = entry.path();
        let names = names(&entry.name).ok_or_else(|| entry.refuse("its name leads out of the directory"))?;
        let Some((name, way)) = names.split_last() else {
            if entry.kind.is_dir() && self.is_new {
                self.wait(entry)?;
            }
            return Ok(());
        };
        match entry.kind {
            EntryType::Directory => {
                self.below.directory(&names).at(&path)?;
                self.wait(entry)
            }
            EntryType::Regular => {
                self.buffer += 1;
                let temporary = format!(".stead-{}-{}", std::process::id(), self.buffer);
                let directory = self.below.directory(way).at(&path)?;
                file(directory, name, &temporary, entry, tape)
            }
            EntryType::Symlink => {
                let directory = self.below.directory(way).at(&path)?;
                make(directory, name, || symlinkat(entry.link.as_slice(), directory, *name), entry)?;
                utimensat(directory, *name, &entry.times(), AtFlags::SYMLINK_NOFOLLOW).at(&path)
            }
            EntryType::Link => self.link(entry, way, name),
            EntryType::Fifo => {
                let directory = self.below.directory(way).at(&path)?;
                let mode = Mode::from_raw_mode(entry.mode & 0o777);
                make(directory, name, || mknodat(directory, *name, FileType::Fifo, mode, 0), entry)?;
                utimensat(directory, *name, &entry.times(), AtFlags::SYMLINK_NOFOLLOW).at(&path)
            }
            EntryType::Char | EntryType::Block => Err(entry.refuse("devices are not unpacked")),
            EntryType::GNUSparse => Err(entry.refuse("sparse files are not unpacked; pack without --sparse")),
            _ => Err(entry.refuse("it is of a kind that is not known here")),
        }
    }

    /// Only to a file that lies below as well.
    fn link(&mut self, entry: &Entry, way: &[&[u8]], name: &[u8]) -> Result<()> {
        let path = entry.path();
        let names = names(&entry.link).filter(|names| !names.is_empty());
        let names = names.ok_or_else(|| entry.refuse("it is a link to something outside of the directory"))?;
        let Some((linked, source)) = names.split_last() else { return Ok(()) };
        let source = self.below.find(source).at(&path)?;
        match kind(std::os::fd::AsFd::as_fd(&source), linked).at(&path)? {
            Some(FileType::RegularFile) => {}
            _ => return Err(entry.refuse("it is a link to something that is no file of the archive")),
        }
        let directory = self.below.directory(way).at(&path)?;
        make(directory, name, || linkat(&source, *linked, directory, name, AtFlags::empty()), entry)
    }

    fn wait(&mut self, entry: &Entry) -> Result<()> {
        self.waiting.push((entry.name.clone(), entry.mode & MODES, entry.times()));
        if self.waiting.len() > WAITING { self.settle(WAITING / 2) } else { Ok(()) }
    }

    /// Gives directories their mode and time, all but the newest ones: those that lie deeper come first.
    fn settle(&mut self, newest: usize) -> Result<()> {
        let kept = self.waiting.split_off(self.waiting.len() - newest.min(self.waiting.len()));
        for (name, mode, times) in std::mem::replace(&mut self.waiting, kept).into_iter().rev() {
            let path = FilePath::found(name.clone());
            let way = names(&name).unwrap_or_default();
            let directory = match self.below.existing(&way) {
                // Somebody inside was faster.
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                found => found.at(&path)?,
            };
            futimens(directory, &times).at(&path)?;
            fchmod(directory, Mode::from_raw_mode(mode)).at(&path)?;
        }
        Ok(())
    }
}

/// Writes what follows into a file that has no name, or one that nobody looks for, until it is whole.
fn file(
    directory: BorrowedFd<'_>,
    name: &[u8],
    temporary: &str,
    entry: &Entry,
    tape: &mut Tape<impl FnMut() -> io::Result<Option<Bytes>>>,
) -> Result<()> {
    let path = entry.path();
    let hidden = openat(directory, c".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
    let (mut file, mut named): (File, bool) = match hidden {
        Ok(file) => (file.into(), false),
        // Not every file system can.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            (openat(directory, temporary, flags, Mode::from_raw_mode(0o600)).at(&path)?.into(), true)
        }
        Err(error) => return Err(error).at(&path),
    };
    let mut work = || {
        while let Some(bytes) = tape.bytes()? {
            file.write_all(bytes).at(&path)?;
        }
        fchmod(&file, Mode::from_raw_mode(entry.mode & MODES)).at(&path)?;
        futimens(&file, &entry.times()).at(&path)?;
        if !named {
            let own = format!("/proc/self/fd/{}", file.as_raw_fd());
            let link = |name: &[u8]| linkat(CWD, own.as_str(), directory, name, AtFlags::SYMLINK_FOLLOW);
            match link(name) {
                // In place of what is there, in one step.
                Err(Errno::EXIST) => link(temporary.as_bytes()).at(&path)?,
                outcome => return outcome.at(&path),
            }
            named = true;
        }
        renameat(directory, temporary, directory, name).map_err(|error| blocked(error, entry))
    };
    let done = work();
    if done.is_err() && named {
        let _ = unlinkat(directory, temporary, AtFlags::empty());
    }
    done
}

/// Makes something under a name; what is there makes room, unless it is a directory.
fn make(directory: BorrowedFd<'_>, name: &[u8], mut make: impl FnMut() -> rustix::io::Result<()>, entry: &Entry) -> Result<()> {
    match make() {
        Err(Errno::EXIST) => {
            unlinkat(directory, name, AtFlags::empty()).map_err(|error| blocked(error, entry))?;
            make().at(&entry.path())
        }
        outcome => outcome.at(&entry.path()),
    }
}

fn blocked(error: Errno, entry: &Entry) -> FileFailure {
    match error {
        Errno::ISDIR => entry.refuse("there is a directory of that name already"),
        error => failure(&entry.path(), FileProblem::Other, io::Error::from(error)),
    }
}
