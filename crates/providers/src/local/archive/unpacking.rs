//! From an archive to layers. Whoever wrote it may mean harm: everything is made anew below one directory that is held open, nothing is
//! replaced, no link is followed, and what no archive of ours holds is refused by name.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatFs, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown,
    fsetxattr, fstat, fstatfs, futimens, linkat, makedev, mkdirat, mknodat, open, openat, symlinkat, utimensat,
};

use super::entry::{Entry, Kind};
use super::owners::Owners;
use super::sparse::{self, LARGEST_MAP};
use super::system::is_host_part;
use super::tape::{Tape, decimal};
use super::{END, Result, Trouble, digest_name, end, layer_prefix};
use crate::local::cursor::Cursor;
use crate::local::layers::is_identity;
use crate::local::removal;
use crate::local::stack::marks;

/// So much stays free on the filesystem, whatever an archive holds; a tenth of it where that is less.
const RESERVE: u64 = 512 << 20;
/// After so many bytes it is looked whether there is still room.
const ROOM: u64 = 16 << 20;
/// What is read at once.
const PIECE: usize = 256 << 10;
/// What the smallest file occupies, as the bound of a disk counts it.
const SMALLEST: u64 = 4096;
/// Beside the parts while a layer is made: a name for each file that has several.
const LINKS: &str = "links";

/// Where one layer goes.
pub struct Target {
    /// Must not be there yet.
    pub directory: PathBuf,
    /// Whether it counts as what the environment occupies.
    pub counted: bool,
}

/// What may be unpacked.
pub struct Wanted<'a> {
    pub targets: &'a [Target],
    /// Whether layers over the host's system are taken.
    pub over_host: bool,
    /// What those that count may occupy.
    pub most: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub entries: u64,
    /// Bytes of files.
    pub size: u64,
}

/// Unpacks everything behind the manifest. Only what returns is whole; whoever fails leaves half of it in the targets.
pub fn unpack<R: io::Read>(tape: &mut Tape<R>, manifest: String, wanted: &Wanted<'_>) -> Result<Unpacked> {
    let mut account = Account { total: Unpacked::default(), occupied: 0, since_look: ROOM, most: wanted.most };
    let mut digests = vec![manifest];
    for (number, target) in wanted.targets.iter().enumerate() {
        let digest = layer(tape, number, target, wanted.over_host, &mut account)?;
        digests.push(digest);
    }
    let last = tape.next()?;
    if last.path != END || last.kind != Kind::File {
        return Err(Trouble::Entry { path: last.shown(), why: "the end should be here".to_owned() });
    }
    let expected = end(&digests);
    if tape.own(&last, expected.len() as u64)? != expected.as_bytes() {
        return Err(Trouble::Archive("the archive is damaged: its digest is another than its end says".to_owned()));
    }
    tape.finish()?;
    Ok(account.total)
}

/// One layer, and its digest.
fn layer<R: io::Read>(tape: &mut Tape<R>, number: usize, target: &Target, over_host: bool, account: &mut Account) -> Result<String> {
    let (prefix, digest_name) = (layer_prefix(number), digest_name(number));
    make_directory(&target.directory)?;
    make_directory(&target.directory.join(LINKS))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let links = open(target.directory.join(LINKS), flags, Mode::empty()).map_err(|error| failed(&target.directory, error))?;
    let mut layer =
        Layer { directory: &target.directory, links, over_host, counted: target.counted, part: None, parts: Vec::new(), account };
    loop {
        let entry = tape.next()?;
        if entry.path == digest_name && entry.kind == Kind::File {
            let said = tape.own(&entry, 128)?;
            layer.finish()?;
            let found = tape.digest();
            if said != found.as_bytes() {
                return Err(Trouble::Archive(format!("the archive is damaged: layer {number} is not what its digest says")));
            }
            return Ok(found);
        }
        let Some(path) = entry.path.strip_prefix(prefix.as_slice()) else {
            return Err(Trouble::Entry { path: entry.shown(), why: format!("only what belongs to layer {number} may stand here") });
        };
        tape.accept();
        layer.put(&entry, path, tape)?;
    }
}

struct Account {
    total: Unpacked,
    occupied: u64,
    since_look: u64,
    most: Option<u64>,
}

impl Account {
    fn occupy(&mut self, bytes: u64, counted: bool) -> Result<()> {
        self.occupied += if counted { bytes } else { 0 };
        match self.most {
            Some(most) if self.occupied > most => Err(Trouble::Unsupported {
                message: format!("the files are more than the {} MiB that the definition gives them", most >> 20),
                suggestion: "remove some where it was exported, or raise `sandbox.resources.disk_mb` there; then export it again"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn check_room(&mut self, directory: BorrowedFd<'_>, more: u64) -> Result<()> {
        self.since_look += more;
        if self.since_look < ROOM {
            return Ok(());
        }
        self.since_look = 0;
        let cause = match fstatfs(directory) {
            Ok(found) if has_room(&found) => return Ok(()),
            Ok(_) => io::Error::new(io::ErrorKind::StorageFull, "the disk is almost full"),
            Err(error) => error.into(),
        };
        Err(Trouble::Io { path: "the layers".to_owned(), cause })
    }
}

struct Layer<'a> {
    directory: &'a Path,
    links: OwnedFd,
    over_host: bool,
    counted: bool,
    part: Option<Part>,
    /// Those that are made already.
    parts: Vec<PathBuf>,
    account: &'a mut Account,
}

/// Where the walk through a part is.
struct Part {
    path: PathBuf,
    owners: Owners,
    cursor: Cursor,
    /// The directories from the part down to where the walk is. Of each only what is small is kept: there may be thousands.
    way: Vec<Entered>,
}

/// What a directory gets when it is left: last of all, because the mode may shut us out, and writing changes the time.
struct Entered {
    name: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
    times: Timestamps,
}

impl Layer<'_> {
    fn put<R: io::Read>(&mut self, entry: &Entry, path: &[u8], tape: &mut Tape<R>) -> Result<()> {
        self.account.total.entries += 1;
        self.account.occupy(SMALLEST, self.counted)?;
        self.account.check_room(self.links.as_fd(), SMALLEST)?;
        if let Some(part) = part_root(path).filter(|_| entry.kind == Kind::Directory) {
            return self.begin(entry, part);
        }
        let refused = |why: &str| Trouble::Entry { path: entry.shown(), why: why.to_owned() };
        let part = self.part.as_mut().ok_or_else(|| refused("it belongs to no part of a layer"))?;
        let below = path.strip_prefix(part.path.as_os_str().as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
        let below = below.ok_or_else(|| refused("it belongs to another part of the layer"))?;
        let below = if entry.kind == Kind::Directory { below.strip_suffix(b"/").unwrap_or(below) } else { below };
        let (parent, name) = match below.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&below[..at], &below[at + 1..]),
            None => (&b""[..], below),
        };
        if name.is_empty() || name == b"." || name == b".." || name.contains(&0) || name.len() > 255 {
            return Err(refused("its name leads elsewhere"));
        }
        part.go_to(parent, entry)?;
        check_mode(entry)?;
        let (uid, gid) = part.owners.on_disk(entry.uid, entry.gid).ok_or_else(|| refused("its owner is none that there is inside"))?;
        // Whatever it was there, here it is to be another.
        if entry.kind != Kind::Directory && entry.kind != Kind::Whiteout && is_identity(&part.path, below) {
            return Err(refused("it is what a system knows itself by, which no archive holds"));
        }
        let name = OsStr::from_bytes(name);
        let made = Made { directory: part.cursor.as_fd(), name, entry, owner: (uid, gid), links: self.links.as_fd() };
        match entry.kind {
            Kind::Directory => {
                made.look_at(mkdirat(made.directory, name, Mode::RWXU))?;
                part.cursor.enter(name).map_err(|cause| Trouble::Io { path: entry.shown(), cause })?;
                let entered = Entered { name: name.as_bytes().to_vec(), mode: entry.mode, owner: (uid, gid), times: times(entry) };
                part.way.push(entered);
                attribute(part.cursor.as_fd(), entry)
            }
            Kind::File => {
                let size = made.file(tape, self.account, self.counted)?;
                self.account.total.size = self.account.total.size.saturating_add(size);
                Ok(())
            }
            _ => made.special(),
        }
    }

    fn begin(&mut self, entry: &Entry, path: PathBuf) -> Result<()> {
        self.leave_part()?;
        let refused = |why: &str| Trouble::Entry { path: entry.shown(), why: why.to_owned() };
        if self.parts.contains(&path) {
            return Err(refused("it comes twice"));
        }
        let owners = Owners::of(&path);
        let unsupported =
            |message: &str, suggestion: &str| Err(Trouble::Unsupported { message: message.to_owned(), suggestion: suggestion.to_owned() });
        if owners == Owners::System && !rustix::process::geteuid().is_root() {
            return unsupported(
                "the archive holds changes of a system, and only a server that root runs can keep those",
                "import it where root runs the server, or export it from an environment without `package_policy: system`",
            );
        }
        if is_host_part(&path) && !self.over_host {
            return Err(refused("the manifest says that no layer lies over the host's system"));
        }
        check_mode(entry)?;
        let owner = owners.on_disk(entry.uid, entry.gid).ok_or_else(|| refused("its owner is none that there is inside"))?;
        let directory = self.directory.join(&path);
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // Seen by ids that do not own it; what holds all of it is closed to others.
            let made = DirBuilder::new().recursive(true).mode(0o755).create(self.directory.join(parent));
            made.map_err(|cause| Trouble::Io { path: entry.shown(), cause })?;
        }
        make_directory(&directory)?;
        let cursor = Cursor::open(&directory).map_err(|cause| Trouble::Io { path: entry.shown(), cause })?;
        attribute(cursor.as_fd(), entry)?;
        self.parts.push(path.clone());
        let way = vec![Entered { name: Vec::new(), mode: entry.mode, owner, times: times(entry) }];
        self.part = Some(Part { path, owners, cursor, way });
        Ok(())
    }

    fn leave_part(&mut self) -> Result<()> {
        match self.part.take() {
            Some(mut part) => part.leave_to(0),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> Result<()> {
        self.leave_part()?;
        if !self.parts.iter().any(|part| part == Path::new("workspace")) {
            return Err(Trouble::Archive("a layer of the archive has no workspace".to_owned()));
        }
        let links = self.directory.join(LINKS);
        match removal::empty(&links, &AtomicBool::new(false)).cause.map_or_else(|| std::fs::remove_dir(&links), Err) {
            Ok(()) => Ok(()),
            Err(cause) => Err(Trouble::Io { path: links.display().to_string(), cause }),
        }
    }
}

impl Part {
    /// Up to where the parent of an entry is. Directories that were left are not entered again: an archive holds each of them once, whole.
    fn go_to(&mut self, parent: &[u8], entry: &Entry) -> Result<()> {
        let names: Vec<&[u8]> = parent.split(|byte| *byte == b'/').filter(|_| !parent.is_empty()).collect();
        let known = self.way[1..].iter().zip(&names).take_while(|(directory, name)| directory.name == **name).count();
        self.leave_to(known + 1)?;
        if known == names.len() {
            return Ok(());
        }
        Err(Trouble::Entry { path: entry.shown(), why: "the directory that it lies in does not come right before it".to_owned() })
    }

    fn leave_to(&mut self, depth: usize) -> Result<()> {
        while self.way.len() > depth {
            let Some(entered) = self.way.pop() else { break };
            let left = match self.way.len() {
                0 => self.cursor.as_fd().try_clone_to_owned(),
                _ => self.cursor.leave(),
            };
            let dressed = left.and_then(|left| dress(left.as_fd(), entered.owner, entered.mode, &entered.times));
            dressed.map_err(|cause| Trouble::Io { path: super::entry::shown(&entered.name), cause })?;
        }
        Ok(())
    }
}

/// An entry about to be made.
struct Made<'a> {
    directory: BorrowedFd<'a>,
    name: &'a OsStr,
    entry: &'a Entry,
    owner: (u32, u32),
    links: BorrowedFd<'a>,
}

impl Made<'_> {
    fn look_at<T>(&self, outcome: rustix::io::Result<T>) -> Result<T> {
        outcome.map_err(|error| match error {
            rustix::io::Errno::EXIST => self.refused("it comes twice"),
            error => Trouble::Io { path: self.entry.shown(), cause: error.into() },
        })
    }

    fn refused(&self, why: &str) -> Trouble {
        Trouble::Entry { path: self.entry.shown(), why: why.to_owned() }
    }

    /// What has no content.
    fn special(&self) -> Result<()> {
        if !self.entry.attributes.is_empty() {
            return Err(self.refused("it has attributes, which such a thing cannot have"));
        }
        let node = |kind, device| mknodat(self.directory, self.name, kind, Mode::from_raw_mode(0o600), device);
        match self.entry.kind {
            Kind::Link => {
                let number = self.entry.link.unwrap_or(u64::MAX).to_string();
                let linked = linkat(self.links, number.as_str(), self.directory, self.name, AtFlags::empty());
                return match linked {
                    Err(rustix::io::Errno::NOENT) => Err(self.refused("it is another name of a file that did not come before it")),
                    outcome => self.look_at(outcome),
                };
            }
            Kind::Symlink => self.look_at(symlinkat(self.entry.target.as_slice(), self.directory, self.name))?,
            Kind::Fifo => self.look_at(node(FileType::Fifo, 0))?,
            Kind::Socket => self.look_at(node(FileType::Socket, 0))?,
            // The kernel lets everybody make this one device.
            _ => self.look_at(node(FileType::CharacterDevice, makedev(0, 0)))?,
        }
        let (uid, gid) = self.owner;
        if rustix::process::geteuid().is_root() {
            let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            self.look_at(chownat(self.directory, self.name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW))?;
        }
        if self.entry.kind != Kind::Symlink {
            self.look_at(chmodat(self.directory, self.name, Mode::from_raw_mode(self.entry.mode & 0o7777), AtFlags::empty()))?;
        }
        self.look_at(utimensat(self.directory, self.name, &times(self.entry), AtFlags::SYMLINK_NOFOLLOW))
    }

    /// A file with its content; how long it is.
    fn file<R: io::Read>(&self, tape: &mut Tape<R>, account: &mut Account, counted: bool) -> Result<u64> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(self.look_at(openat(self.directory, self.name, flags, Mode::from_raw_mode(0o600)))?);
        let trouble = |cause| Trouble::Io { path: self.entry.shown(), cause };
        let mut write = |tape: &mut Tape<R>, mut at: u64, mut left: u64| {
            let mut buffer = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
                let length = tape.content(&mut buffer[..most])?;
                account.check_room(file.as_fd(), length as u64)?;
                account.occupy(length as u64, counted)?;
                file.write_all_at(&buffer[..length], at).map_err(trouble)?;
                (at, left) = (at + length as u64, left - length as u64);
            }
            Ok::<_, Trouble>(())
        };
        let whole = match self.entry.whole {
            None => {
                write(tape, 0, self.entry.size)?;
                self.entry.size
            }
            Some(whole) => {
                let (extents, map) = self.map(tape, whole)?;
                let bytes: u64 = extents.iter().map(|(_, length)| length).sum();
                if map.checked_add(bytes) != Some(self.entry.size) {
                    return Err(self.refused("its holes are not where it says"));
                }
                for (offset, length) in extents {
                    write(tape, offset, length)?;
                }
                file.set_len(whole).map_err(trouble)?;
                whole
            }
        };
        attribute(file.as_fd(), self.entry)?;
        dress(file.as_fd(), self.owner, self.entry.mode, &times(self.entry)).map_err(trouble)?;
        if let Some(link) = self.entry.link {
            self.look_at(linkat(self.directory, self.name, self.links, link.to_string().as_str(), AtFlags::empty()))?;
        }
        Ok(whole)
    }

    /// Where the bytes of a file with holes go, and how much of the archive says so.
    fn map<R: io::Read>(&self, tape: &mut Tape<R>, whole: u64) -> Result<(Vec<sparse::Extent>, u64)> {
        let mut read = 0_u64;
        let mut byte = || {
            let mut byte = [0];
            read += 1;
            let is_there = read <= LARGEST_MAP && matches!(tape.content(&mut byte), Ok(1));
            is_there.then_some(byte[0])
        };
        let mut line = || {
            let mut digits = Vec::new();
            loop {
                match byte()? {
                    b'\n' => return decimal(&digits),
                    digit => digits.push(digit),
                }
            }
        };
        let extents = sparse::read(whole, &mut line).ok_or_else(|| self.refused("its holes are not where it says"))?;
        let rest = read.next_multiple_of(super::entry::BLOCK as u64) - read;
        for _ in 0..rest {
            tape.content(&mut [0])?;
        }
        Ok((extents, read + rest))
    }
}

/// Owner, mode and time of what is open.
fn dress(made: BorrowedFd<'_>, (uid, gid): (u32, u32), mode: u32, times: &Timestamps) -> io::Result<()> {
    let stat: Stat = fstat(made)?;
    if rustix::process::geteuid().is_root() && (stat.st_uid, stat.st_gid) != (uid, gid) {
        fchown(made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    fchmod(made, Mode::from_raw_mode(mode & 0o7777))?;
    Ok(futimens(made, times)?)
}

/// The attributes of what is open.
fn attribute(made: BorrowedFd<'_>, entry: &Entry) -> Result<()> {
    if entry.attributes.is_empty() {
        return Ok(());
    }
    let stat = fstat(made).map_err(|error| Trouble::Io { path: entry.shown(), cause: error.into() })?;
    for (name, value) in &entry.attributes {
        let refused = |why: String| {
            let why = format!("its attribute `{}` {why}", super::entry::shown(name));
            Err(Trouble::Entry { path: entry.shown(), why })
        };
        if !name.starts_with(b"user.") || !marks::may_be_carried(name, value, &stat) {
            return refused("is none that an archive holds".to_owned());
        }
        if let Err(error) = fsetxattr(made, OsStr::from_bytes(name), value, XattrFlags::CREATE) {
            return refused(format!("cannot be kept here: {error}"));
        }
    }
    Ok(())
}

/// Nothing in an archive runs as somebody else.
fn check_mode(entry: &Entry) -> Result<()> {
    let allowed = if entry.kind == Kind::Directory { 0o3777 } else { 0o1777 };
    if entry.mode & !allowed == 0 {
        return Ok(());
    }
    Err(Trouble::Entry { path: entry.shown(), why: "it has a set-user-id bit, or another that no archive holds".to_owned() })
}

/// For more bytes, and for more files where their number has an end.
fn has_room(filesystem: &StatFs) -> bool {
    let bytes = |blocks: u64| blocks.saturating_mul(u64::try_from(filesystem.f_bsize).unwrap_or(1));
    let reserve = RESERVE.min(bytes(filesystem.f_blocks) / 10);
    bytes(filesystem.f_bavail) > reserve && (filesystem.f_files == 0 || filesystem.f_ffree > filesystem.f_files / 50)
}

fn times(entry: &Entry) -> Timestamps {
    let (tv_sec, nanoseconds) = entry.modified;
    let modified = Timespec { tv_sec, tv_nsec: nanoseconds.into() };
    Timestamps { last_access: modified, last_modification: modified }
}

/// `workspace/`, or `system/NAME/upper/`.
fn part_root(path: &[u8]) -> Option<PathBuf> {
    let path = std::str::from_utf8(path.strip_suffix(b"/")?).ok()?;
    let is_name = |name: &str| (1..=80).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["workspace"] => Some(PathBuf::from("workspace")),
        ["system", name, "upper"] if is_name(name) => Some(Path::new("system").join(name).join("upper")),
        _ => None,
    }
}

fn make_directory(path: &Path) -> Result<()> {
    mkdirat(CWD, path, Mode::RWXU).map_err(|error| failed(path, error))
}

fn failed(path: &Path, error: rustix::io::Errno) -> Trouble {
    Trouble::Io { path: path.file_name().unwrap_or_default().to_string_lossy().into_owned(), cause: error.into() }
}
