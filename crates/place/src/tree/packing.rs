//! A tree as a tar archive: links as links, names byte for byte, and nobody's owner.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use stead_domain::files::{FilePath, FileProblem};
use tar::{EntryType, Header};

use super::Moved;
use super::private;
use super::trouble::{At, Result, as_path, failure};

const BLOCK: usize = 512;
/// What is given away at once.
const PIECE: usize = 256 << 10;
/// What fits into a header.
const SHORT: usize = 100;

/// Something that can be packed.
pub struct Packing {
    path: FilePath,
    opened: OwnedFd,
    stat: Stat,
}

impl Packing {
    pub fn open(path: &FilePath) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(as_path(path), flags, Mode::empty()).at(path)?;
        let stat = fstat(&opened).at(path)?;
        private::check(&opened, stat.st_dev, path)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory | FileType::RegularFile => Ok(Self { path: path.clone(), opened, stat }),
            _ => Err(failure(path, FileProblem::NotAFile, "")),
        }
    }

    /// Gives the archive away piece by piece. A directory's entries are named from it on; a file is the only entry.
    pub fn pack(self, sink: impl FnMut(&[u8]) -> io::Result<()>) -> Result<Moved> {
        let Self { path, opened, stat } = self;
        let mut writer = Writer { sink, buffer: Vec::with_capacity(PIECE + BLOCK), linked: HashMap::new(), moved: Moved::default() };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            writer.header(b"./", EntryType::Directory, &stat, 0, b"", &path)?;
            writer.directory(opened.as_fd(), b"", &path)?;
        } else {
            let name = as_path(&path).file_name().unwrap_or_default();
            writer.file(File::from(opened), std::os::unix::ffi::OsStrExt::as_bytes(name), &path)?;
        }
        writer.buffer.extend([0; 2 * BLOCK]);
        writer.flush(&path)?;
        Ok(writer.moved)
    }
}

struct Writer<S> {
    sink: S,
    buffer: Vec<u8>,
    /// Files with several names, and the first of them.
    linked: HashMap<(u64, u64), Vec<u8>>,
    moved: Moved,
}

impl<S: FnMut(&[u8]) -> io::Result<()>> Writer<S> {
    fn directory(&mut self, directory: BorrowedFd<'_>, prefix: &[u8], path: &FilePath) -> Result<()> {
        let mut names = Vec::new();
        for found in Dir::read_from(directory).at(path)? {
            let found = found.at(path)?;
            if !matches!(found.file_name().to_bytes(), b"." | b"..") {
                names.push(found.file_name().to_owned());
            }
        }
        names.sort_unstable();
        for name in names {
            match self.entry(directory, &name, prefix, path) {
                // Gone by now.
                Err(failure) if failure.why == FileProblem::NotFound => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, directory: BorrowedFd<'_>, name: &CStr, prefix: &[u8], path: &FilePath) -> Result<()> {
        let full = [prefix, name.to_bytes()].concat();
        let here = path.join(name.to_bytes());
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).at(&here)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let inner = openat(directory, name, flags | OFlags::DIRECTORY, Mode::empty()).at(&here)?;
                let full = [full.as_slice(), b"/"].concat();
                self.header(&full, EntryType::Directory, &stat, 0, b"", &here)?;
                self.directory(inner.as_fd(), &full, &here)
            }
            FileType::RegularFile => match openat(directory, name, flags, Mode::empty()) {
                Ok(file) => self.file(file.into(), &full, &here),
                // A link by now, which is no file and was none.
                Err(Errno::LOOP) => Ok(()),
                Err(error) => Err(error).at(&here),
            },
            FileType::Symlink => {
                let target = readlinkat(directory, name, Vec::new()).at(&here)?;
                self.header(&full, EntryType::Symlink, &stat, 0, target.as_bytes(), &here)
            }
            FileType::Fifo => self.header(&full, EntryType::Fifo, &stat, 0, b"", &here),
            // Sockets and devices mean nothing anywhere else.
            _ => Ok(()),
        }
    }

    fn file(&mut self, mut file: File, name: &[u8], path: &FilePath) -> Result<()> {
        let stat = fstat(&file).at(path)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || private::is_secret(stat.st_dev) {
            return Ok(());
        }
        if stat.st_nlink > 1 {
            let identity = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.linked.get(&identity) {
                let first = first.clone();
                return self.header(name, EntryType::Link, &stat, 0, &first, path);
            }
            self.linked.insert(identity, name.to_vec());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        self.header(name, EntryType::Regular, &stat, size, b"", path)?;
        self.moved.size += size;
        let mut left = size;
        while left > 0 {
            let start = self.buffer.len();
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE - start % PIECE);
            self.buffer.resize(start + most, 0);
            let length = file.read(&mut self.buffer[start..]).at(path)?;
            // A file that became shorter is filled up, as every archiver does: its header is on its way already.
            let length = if length == 0 { most } else { length };
            self.buffer.truncate(start + length);
            left -= length as u64;
            self.pass_on(path)?;
        }
        let padding = usize::try_from(size.next_multiple_of(BLOCK as u64) - size).unwrap_or(0);
        self.buffer.resize(self.buffer.len() + padding, 0);
        self.pass_on(path)
    }

    fn header(&mut self, name: &[u8], kind: EntryType, stat: &Stat, size: u64, link: &[u8], path: &FilePath) -> Result<()> {
        for (long, kind) in [(name, EntryType::GNULongName), (link, EntryType::GNULongLink)] {
            if long.len() > SHORT {
                let mut extension = Header::new_gnu();
                extension.set_size(long.len() as u64 + 1);
                self.block(&mut extension, b"././@LongLink", kind, b"");
                self.buffer.extend_from_slice(long);
                self.buffer.push(0);
                self.buffer.resize(self.buffer.len().next_multiple_of(BLOCK), 0);
                self.pass_on(path)?;
            }
        }
        let mut header = Header::new_gnu();
        header.set_mode(stat.st_mode & 0o7777);
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
        header.set_size(size);
        self.block(&mut header, name, kind, link);
        self.moved.count += 1;
        self.pass_on(path)
    }

    fn block(&mut self, header: &mut Header, name: &[u8], kind: EntryType, link: &[u8]) {
        header.set_uid(0);
        header.set_gid(0);
        header.set_entry_type(kind);
        let old = header.as_old_mut();
        for (field, value) in [(&mut old.name, name), (&mut old.linkname, link)] {
            let length = value.len().min(SHORT);
            field[..length].copy_from_slice(&value[..length]);
        }
        header.set_cksum();
        self.buffer.extend_from_slice(header.as_bytes());
    }

    fn pass_on(&mut self, path: &FilePath) -> Result<()> {
        if self.buffer.len() >= PIECE { self.flush(path) } else { Ok(()) }
    }

    fn flush(&mut self, path: &FilePath) -> Result<()> {
        for piece in self.buffer.chunks(PIECE) {
            (self.sink)(piece).at(path)?;
        }
        self.buffer.clear();
        Ok(())
    }
}
