//! From layers to an archive. They are sealed: nothing in them changes while they are read, so the first walk says how long the archive of
//! the second one is.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Stat, fstat, readlinkat};
use rustix::io::{Errno, pread};
use sha2::{Digest, Sha256};
use stead_domain::changes::RelativePath;

use super::entry::{BLOCK, Entry, Kind, LARGEST_RECORDS, LONGEST_PATH};
use super::owners::Owners;
use super::sparse::{self, Extent};
use super::{END, MANIFEST, digest_name, end, layer_prefix, written};
use crate::local::cursor::{Cursor, identity, open_file};
use crate::local::entry::{file_type, is_directory, size};
use crate::local::layers::is_identity;
use crate::local::stack::names::Names;
use crate::local::stack::{Place as _, Result, Trouble, attributes, marks, parts};

/// What is given away at once.
const PIECE: usize = 256 << 10;
/// A layer that is on its way from one place to another is looked for again.
const ATTEMPTS: usize = 3;

/// Where a layer is found, each time that it is asked for.
pub type Found<'a> = &'a dyn Fn(usize) -> io::Result<PathBuf>;

/// Who takes the archive, piece by piece.
pub type Sink<'a> = &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>;

/// Packs so many layers behind a manifest, and tells how long the archive is. Without a sink it is only measured.
pub fn pack<'a>(manifest: &[u8], layers: usize, found: Found<'_>, sink: Option<Sink<'a>>, stopped: &'a AtomicBool) -> Result<u64> {
    let buffer = Vec::with_capacity(PIECE + 4 * BLOCK);
    let mut packing = Packing { sink, buffer, length: 0, hash: Sha256::new(), linked: HashMap::new(), stopped };
    let top = RelativePath::default();
    packing.plain(MANIFEST, manifest).at(&top)?;
    let mut digests = vec![written(Sha256::new_with_prefix(manifest))];
    for number in 0..layers {
        packing.hash = Sha256::new();
        packing.linked.clear();
        for (part, cursor) in open_parts(&|| found(number)).at(&top)? {
            let prefix = [layer_prefix(number).as_slice(), part.as_os_str().as_bytes(), b"/"].concat();
            let walk = Walk { packing: &mut packing, cursor, prefix, owners: Owners::of(&part), part: &part, path: top.clone() };
            walk.run().map_err(|trouble| trouble.in_part(&part))?;
        }
        let digest = written(std::mem::take(&mut packing.hash));
        packing.plain(&digest_name(number), digest.as_bytes()).at(&top)?;
        digests.push(digest);
    }
    packing.plain(END, end(&digests).as_bytes()).at(&top)?;
    packing.put(&[0; 2 * BLOCK]).and_then(|()| packing.flush()).at(&top)?;
    Ok(packing.length)
}

/// Everything that belongs to a layer, held open from one look at where it lies.
fn open_parts(found: &dyn Fn() -> io::Result<PathBuf>) -> io::Result<Vec<(PathBuf, Cursor)>> {
    for _ in 0..ATTEMPTS {
        let layer = found()?;
        let open = |part: PathBuf| Cursor::open(&layer.join(&part)).map(|cursor| (part, cursor));
        match parts(&layer).and_then(|parts| parts.into_iter().map(open).collect::<io::Result<Vec<_>>>()) {
            // It lay there from the first to the last.
            Ok(opened) if found()? == layer => return Ok(opened),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "a layer is gone"))
}

struct Packing<'a> {
    sink: Option<Sink<'a>>,
    buffer: Vec<u8>,
    length: u64,
    /// Of everything since the present layer began.
    hash: Sha256,
    /// Files of the present layer with several names, by number.
    linked: HashMap<(u64, u64), u64>,
    stopped: &'a AtomicBool,
}

impl Packing<'_> {
    /// A file of the archive's own.
    fn plain(&mut self, name: &[u8], content: &[u8]) -> io::Result<()> {
        self.put(&Entry::plain(name, content.len()).write())?;
        self.put(content)?;
        self.fill_up(content.len() as u64)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        if self.sink.is_none() {
            return Ok(());
        }
        self.hash.update(bytes);
        self.buffer.extend_from_slice(bytes);
        self.pass_on()
    }

    /// To the end of the block.
    fn fill_up(&mut self, size: u64) -> io::Result<()> {
        let padding = usize::try_from(size.next_multiple_of(BLOCK as u64) - size).unwrap_or(0);
        self.put(&[0; BLOCK][..padding])
    }

    fn copy(&mut self, file: &OwnedFd, (mut at, mut left): Extent) -> io::Result<()> {
        self.length += left;
        while self.sink.is_some() && left > 0 {
            let start = self.buffer.len();
            let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            self.buffer.resize(start + most, 0);
            let length = loop {
                match pread(file, &mut self.buffer[start..], at) {
                    Err(Errno::INTR) => {}
                    outcome => break outcome?,
                }
            };
            if length == 0 {
                return Err(io::Error::other("a sealed file became shorter"));
            }
            self.buffer.truncate(start + length);
            self.hash.update(&self.buffer[start..]);
            (at, left) = (at + length as u64, left - length as u64);
            self.pass_on()?;
        }
        Ok(())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        if self.buffer.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE + 4 * BLOCK));
        match &mut self.sink {
            Some(sink) if !piece.is_empty() => sink(piece),
            _ => Ok(()),
        }
    }
}

/// Through one part of a layer.
struct Walk<'a, 'b> {
    packing: &'a mut Packing<'b>,
    cursor: Cursor,
    /// Before every name.
    prefix: Vec<u8>,
    owners: Owners,
    part: &'a Path,
    path: RelativePath,
}

impl Walk<'_, '_> {
    fn run(mut self) -> Result<()> {
        self.directory().at(&self.path)?;
        let mut levels = vec![Names::default()];
        while let Some(mut names) = levels.pop() {
            if self.packing.stopped.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            let Some(name) = names.next(|| vec![&self.cursor]).at(&self.path)? else {
                if self.cursor.depth() > 0 {
                    self.cursor.leave().at(&self.path)?;
                }
                self.path.pop();
                continue;
            };
            levels.push(names);
            let Some(stat) = self.cursor.look(&name).at(&self.path)? else { continue };
            self.path.push(name.as_bytes());
            if is_directory(&stat) {
                self.cursor.enter(&name).and_then(|()| self.directory()).at(&self.path)?;
                levels.push(Names::default());
                continue;
            }
            // What a system knows itself by is nobody else's.
            if !is_identity(self.part, self.path.as_bytes()) {
                self.entry(&name, &stat).at(&self.path)?;
            }
            self.path.pop();
        }
        Ok(())
    }

    /// The one that the walk is in.
    fn directory(&mut self) -> io::Result<()> {
        let stat = fstat(self.cursor.as_fd())?;
        let mut entry = self.describe(&stat, Kind::Directory)?;
        if !self.path.as_bytes().is_empty() {
            entry.path.push(b'/');
        }
        entry.attributes = carried(self.cursor.as_fd(), &stat)?;
        self.begin(&entry)
    }

    fn entry(&mut self, name: &OsStr, stat: &Stat) -> io::Result<()> {
        let kind = match file_type(stat) {
            FileType::RegularFile => return self.file(name),
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice if stat.st_rdev == 0 => Kind::Whiteout,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidFilename, "it is a device, which no environment can make")),
        };
        let mut entry = self.describe(stat, kind)?;
        if kind == Kind::Symlink {
            entry.target = readlinkat(self.cursor.as_fd(), name, Vec::new())?.into_bytes();
        }
        self.begin(&entry)
    }

    fn file(&mut self, name: &OsStr) -> io::Result<()> {
        let file = open_file(self.cursor.as_fd(), name)?;
        let stat = fstat(&file)?;
        if file_type(&stat) != FileType::RegularFile {
            return Err(io::Error::other("it became something else meanwhile"));
        }
        let mut entry = self.describe(&stat, Kind::File)?;
        if stat.st_nlink > 1 {
            let next = self.packing.linked.len() as u64;
            let known = self.packing.linked.get(&identity(&stat)).copied();
            entry.link = Some(known.unwrap_or(next));
            if known.is_some() {
                entry.kind = Kind::Link;
                return self.begin(&entry);
            }
            self.packing.linked.insert(identity(&stat), next);
        }
        entry.attributes = carried(file.as_fd(), &stat)?;
        let whole = size(&stat);
        let Some(extents) = sparse::extents(&file, whole)? else {
            entry.size = whole;
            self.begin(&entry)?;
            self.packing.copy(&file, (0, whole))?;
            return self.packing.fill_up(whole);
        };
        let map = sparse::write(&extents);
        entry.size = map.len() as u64 + extents.iter().map(|(_, length)| length).sum::<u64>();
        entry.whole = Some(whole);
        self.begin(&entry)?;
        self.packing.put(&map)?;
        for extent in extents {
            self.packing.copy(&file, extent)?;
        }
        self.packing.fill_up(entry.size)
    }

    fn describe(&self, stat: &Stat, kind: Kind) -> io::Result<Entry> {
        let path = [self.prefix.as_slice(), self.path.as_bytes()].concat();
        if path.len() >= LONGEST_PATH {
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, "it lies too deep to be carried"));
        }
        // Nothing runs as somebody else, here or there; of a directory the bit says only whose group is used in it.
        let kept = if kind == Kind::Directory { 0o3777 } else { 0o1777 };
        let (uid, gid) = self.owners.inside(stat);
        let modified = (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0));
        Ok(Entry { uid, gid, modified, ..Entry::new(&path, kind, stat.st_mode & kept) })
    }

    fn begin(&mut self, entry: &Entry) -> io::Result<()> {
        let blocks = entry.write();
        if blocks.len() as u64 > LARGEST_RECORDS {
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, "its attributes are too large to be carried"));
        }
        self.packing.put(&blocks)
    }
}

/// What people wrote, and the marks of the overlay that mean something in another one. What else the kernel keeps there is true of one host.
fn carried(of: std::os::fd::BorrowedFd<'_>, stat: &Stat) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut kept = Vec::new();
    attributes::each(of, |name, value| {
        if name.starts_with(b"user.") && marks::may_be_carried(name, &value, stat) {
            kept.push((name.to_vec(), value));
        }
        Ok(())
    })?;
    Ok(kept)
}
