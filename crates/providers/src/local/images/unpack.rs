//! Puts the entries of an archive into a directory, and nowhere else: whoever wrote the archive may mean harm.
//!
//! Every name is looked up below that directory without following a link, and what cannot be kept there is refused by name. Owners are kept
//! where root unpacks; set-user-id bits never.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, chownat, fchmod, fchown, futimens, linkat, mkdirat,
    openat, openat2, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::Trouble;
use super::tar::{Archive, Entry, Kind};

/// No system has more ids; what belongs to others belongs to nobody.
const IDS: u64 = 65_536;
const NOBODY: u32 = 65_534;
/// So much stays free on the filesystem, whatever an archive holds.
const RESERVE: u64 = 512 << 20;
/// After so many bytes it is looked whether there is still room.
const PIECE: u64 = 64 << 20;

struct Unpacking {
    root: OwnedFd,
    by_root: bool,
    /// Written since the room was last looked at.
    written: u64,
    /// The directory that the last entry was put into.
    last: Option<(Vec<Vec<u8>>, OwnedFd)>,
}

/// Unpacks everything into an empty directory, and gives back what the archive was read from.
pub fn unpack<R: Read>(from: R, directory: &Path) -> Result<R, Trouble> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, directory, flags, Mode::empty()).map_err(failed)?;
    // Seen inside by somebody else than whoever unpacks it.
    fchmod(&root, Mode::from_raw_mode(0o755)).map_err(failed)?;
    let mut unpacking = Unpacking { root, by_root: rustix::process::geteuid().is_root(), written: PIECE, last: None };
    let mut archive = Archive::new(from);
    while let Some(entry) = archive.next()? {
        unpacking.put(&entry, &mut archive).map_err(|trouble| match trouble {
            // A disk that is full is not the entry's fault.
            Trouble::Io(error) if !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                Trouble::Entry { entry: entry.shown(), why: error.to_string() }
            }
            other => other,
        })?;
    }
    unpacking.settle()?;
    Ok(archive.into_inner())
}

fn failed(error: Errno) -> Trouble {
    Trouble::Io(error.into())
}

fn refused(entry: &Entry, why: impl Into<String>) -> Trouble {
    Trouble::Entry { entry: entry.shown(), why: why.into() }
}

/// The steps of a name. It may begin at a root, which is then this one; it may not lead upwards.
fn steps(entry: &Entry, path: &[u8]) -> Result<Vec<Vec<u8>>, Trouble> {
    let mut steps = Vec::new();
    for step in path.split(|byte| *byte == b'/') {
        match step {
            b"" | b"." => {}
            b".." => return Err(refused(entry, "it leads out of the archive by `..`")),
            step if step.contains(&0) => return Err(refused(entry, "its name holds a zero byte")),
            step => steps.push(step.to_vec()),
        }
    }
    Ok(steps)
}

impl Unpacking {
    fn put(&mut self, entry: &Entry, archive: &mut Archive<impl Read>) -> Result<(), Trouble> {
        let mut path = steps(entry, &entry.path)?;
        // The root itself: it is there.
        let Some(name) = path.pop() else { return Ok(()) };
        let parent = self.parent(entry, &path)?;
        if entry.kind != Kind::Directory {
            match unlinkat(&parent, &name[..], AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => return Err(refused(entry, "a directory of the same name comes before it")),
                Err(error) => return Err(failed(error)),
            }
        }
        match entry.kind {
            Kind::Directory => self.directory(entry, &parent, &name)?,
            Kind::File => self.file(entry, &parent, &name, archive)?,
            Kind::SymbolicLink => {
                // Where it leads is looked up inside later, in a root that has no way out; nothing here follows it.
                symlinkat(&entry.link[..], &parent, &name[..]).map_err(failed)?;
                self.own_link(entry, &parent, &name)?;
            }
            Kind::HardLink => self.hard_link(entry, &parent, &name)?,
            Kind::Fifo => {
                rustix::fs::mknodat(&parent, &name[..], FileType::Fifo, Mode::from_raw_mode(entry.mode & 0o777), 0).map_err(failed)?;
                self.own_link(entry, &parent, &name)?;
            }
            // A place has devices of its own, and no others work in it.
            Kind::Device => {}
        }
        self.last = Some((path, parent));
        Ok(())
    }

    /// The directory that an entry belongs into, made where the archive has none.
    fn parent(&mut self, entry: &Entry, path: &[Vec<u8>]) -> Result<OwnedFd, Trouble> {
        if let Some((_, held)) = self.last.take_if(|(last, _)| last == path) {
            return Ok(held);
        }
        let mut at = self.root.try_clone().map_err(Trouble::Io)?;
        for step in path {
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let open = |at: &OwnedFd| openat2(at, &step[..], flags, Mode::empty(), how);
            at = match open(&at) {
                Err(Errno::NOENT) => {
                    mkdirat(&at, &step[..], Mode::from_raw_mode(0o755)).map_err(failed)?;
                    let made = open(&at).map_err(failed)?;
                    fchmod(&made, Mode::from_raw_mode(0o755)).map_err(failed)?;
                    made
                }
                Err(Errno::LOOP) => return Err(refused(entry, "it leads through a link of the archive")),
                Err(Errno::NOTDIR) => return Err(refused(entry, "it leads through what is no directory in the archive")),
                outcome => outcome.map_err(failed)?,
            };
        }
        Ok(at)
    }

    fn directory(&self, entry: &Entry, parent: &OwnedFd, name: &[u8]) -> Result<(), Trouble> {
        match mkdirat(parent, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = match openat(parent, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(refused(entry, "something else of the same name comes before it")),
            outcome => outcome.map_err(failed)?,
        };
        if self.by_root {
            let (uid, gid) = owner(entry);
            fchown(&made, Some(uid), Some(gid)).map_err(failed)?;
        }
        // Its owner can always look into it and, one day, remove it.
        fchmod(&made, Mode::from_raw_mode(entry.mode & 0o1777 | 0o700)).map_err(failed)
    }

    fn file(&mut self, entry: &Entry, parent: &OwnedFd, name: &[u8], archive: &mut Archive<impl Read>) -> Result<(), Trouble> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(parent, name, flags, Mode::from_raw_mode(0o600)).map_err(failed)?);
        let mut left = entry.size;
        loop {
            if self.written >= PIECE || entry.size >= PIECE {
                self.check_room(entry, left)?;
            }
            if left == 0 {
                break;
            }
            let piece = io::copy(&mut archive.by_ref().take(left.min(PIECE)), &mut file).map_err(Trouble::Io)?;
            if piece == 0 {
                return Err(Trouble::Unreadable(format!("it ends in the middle of `{}`", entry.shown())));
            }
            left -= piece;
            self.written += piece;
        }
        file.flush().map_err(Trouble::Io)?;
        if self.by_root {
            let (uid, gid) = owner(entry);
            fchown(&file, Some(uid), Some(gid)).map_err(failed)?;
        }
        fchmod(&file, Mode::from_raw_mode(entry.mode & 0o777)).map_err(failed)?;
        let time = Timespec { tv_sec: i64::try_from(entry.modified).unwrap_or(0), tv_nsec: 0 };
        futimens(&file, &Timestamps { last_access: time, last_modification: time }).map_err(failed)
    }

    fn check_room(&mut self, entry: &Entry, wanted: u64) -> Result<(), Trouble> {
        let found = rustix::fs::fstatfs(&self.root).map_err(failed)?;
        let free = found.f_bavail.saturating_mul(found.f_bsize as u64);
        self.written = 0;
        if wanted.saturating_add(RESERVE) <= free {
            return Ok(());
        }
        Err(refused(
            entry,
            format!("{wanted} bytes of it are to come, and the filesystem has {free} bytes free, of which {RESERVE} stay free"),
        ))
    }

    /// Another name for a file that came before.
    fn hard_link(&mut self, entry: &Entry, parent: &OwnedFd, name: &[u8]) -> Result<(), Trouble> {
        let mut path = steps(entry, &entry.link)?;
        let Some(target) = path.pop() else { return Err(refused(entry, "it is a link to the root")) };
        let of = self.parent(entry, &path)?;
        match statat(&of, &target[..], AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) if !FileType::from_raw_mode(status.st_mode).is_dir() => {}
            Ok(_) => return Err(refused(entry, "it is a link to a directory")),
            Err(Errno::NOENT) => {
                return Err(refused(
                    entry,
                    format!("it is a link to `{}`, which does not come before it", String::from_utf8_lossy(&entry.link)),
                ));
            }
            Err(error) => return Err(failed(error)),
        }
        linkat(&of, &target[..], parent, name, AtFlags::empty()).map_err(failed)
    }

    fn own_link(&self, entry: &Entry, parent: &OwnedFd, name: &[u8]) -> Result<(), Trouble> {
        if !self.by_root {
            return Ok(());
        }
        let (uid, gid) = owner(entry);
        chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)
    }

    /// Which names there are and who answers for others is said by files that are put over these.
    fn settle(&self) -> Result<(), Trouble> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(etc) = openat(&self.root, "etc", flags, Mode::empty()) else { return Ok(()) };
        for name in ["resolv.conf", "hosts", "passwd", "group"] {
            let found = statat(&etc, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|status| FileType::from_raw_mode(status.st_mode));
            match found {
                Some(FileType::RegularFile | FileType::Directory) => continue,
                Some(_) => unlinkat(&etc, name, AtFlags::empty()).map_err(failed)?,
                None => {}
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let made = openat(etc.as_fd(), name, flags, Mode::from_raw_mode(0o644)).map_err(failed)?;
            fchmod(&made, Mode::from_raw_mode(0o644)).map_err(failed)?;
        }
        Ok(())
    }
}

fn owner(entry: &Entry) -> (Uid, Gid) {
    let id = |id: u64| u32::try_from(id).ok().filter(|_| id < IDS).unwrap_or(NOBODY);
    (Uid::from_raw(id(entry.uid)), Gid::from_raw(id(entry.gid)))
}
