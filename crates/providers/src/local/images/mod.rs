//! Systems of their own that places have as their root: unpacked archives below `images/`, by the digest of the archive, and directories of
//! the host as they are.
//!
//! An archive is unpacked aside and put in place by one rename: what is in place is whole, whatever ended before. What an awake environment
//! uses is locked by its steward and not removed.

mod tar;
mod tree_digest;
mod unpack;

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, futimens, openat2};
use sha2::{Digest, Sha256};

use super::tree;

/// Unfinished ones begin like this.
const UNFINISHED: &str = ".unpacking-";
/// One that was used so lately may be about to be named by a definition.
const YOUNG: Duration = Duration::from_secs(600);

/// So that no two of this process have one name.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("its entry `{entry}` is refused: {why}")]
    Entry { entry: String, why: String },
    #[error("{0}")]
    Unreadable(String),
    #[error("its digest is `{found}`, and the definition says `{declared}`")]
    Different { declared: String, found: String },
    #[error("{0}")]
    Io(io::Error),
}

impl Trouble {
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Entry { .. } | Self::Unreadable(_) => {
                "name a directory, or an archive as `tar -C DIR -cf FILE .`, `podman export` and `docker export` write it"
            }
            Self::Different { .. } => {
                "put back what the digest is of, or change `root.digest` to what is there; without one, what is there is taken"
            }
            Self::Io(_) => "look at the path on the server's host: it must be a directory or a tar archive that the server may read",
        }
    }
}

/// What a place has as its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub root: PathBuf,
    /// None for a directory that no digest was asked of.
    pub digest: Option<String>,
    /// Whether it is one of ours, which can be removed.
    pub unpacked: bool,
}

pub struct Images {
    directory: PathBuf,
    trash: PathBuf,
    /// One at a time: two of the same archive would do the work twice.
    unpacking: Mutex<()>,
    /// What was found of which file or directory, for as long as it is unchanged.
    known: Mutex<HashMap<PathBuf, (String, String)>>,
}

impl Images {
    /// Moves what was not finished out of the way.
    pub fn open(directory: PathBuf, trash: PathBuf) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                tree::discard(&entry.path(), &trash.join(entry.file_name()))?;
            }
        }
        // What is mounted from there is named without links.
        let directory = directory.canonicalize()?;
        Ok(Self { directory, trash, unpacking: Mutex::new(()), known: Mutex::default() })
    }

    /// Where an archive with this digest lies when it is unpacked.
    fn place_of(&self, digest: &str) -> PathBuf {
        self.directory.join(digest.strip_prefix("sha256:").unwrap_or(digest).to_ascii_lowercase())
    }

    /// Where they are unpacked.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Where the root of a definition's image is, without looking whether it is there.
    pub fn find(&self, path: &Path, digest: Option<&str>) -> Image {
        match digest {
            Some(digest) if !path.is_dir() => Image { root: self.place_of(digest), digest: Some(digest.to_owned()), unpacked: true },
            digest => Image { root: path.to_owned(), digest: digest.map(str::to_owned), unpacked: false },
        }
    }

    /// Looks whether a path is what its digest says, and unpacks it if need be. A path that is gone does if its archive was unpacked before
    /// and `trusted` says that this definition had it then. Blocks for as long as that takes.
    pub fn prepare(&self, path: &Path, digest: Option<&str>, trusted: bool) -> Result<Image, Trouble> {
        if !path.is_dir()
            && trusted
            && let Some(digest) = digest
            && self.want(&self.place_of(digest))
        {
            return Ok(self.find(path, Some(digest)));
        }
        let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(CWD, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty(), how);
        let file = File::from(opened.map_err(|error| match error {
            rustix::io::Errno::LOOP => Trouble::Unreadable("a step of its path is a link: name where that leads".to_owned()),
            error => Trouble::Io(error.into()),
        })?);
        let metadata = file.metadata().map_err(Trouble::Io)?;
        if metadata.is_dir() {
            return self.directory_with(path, digest);
        }
        if !metadata.is_file() {
            return Err(Trouble::Unreadable("it is neither a directory nor a file".to_owned()));
        }
        let _alone = self.unpacking.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = [
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime() as u64,
            metadata.mtime_nsec() as u64,
            metadata.ctime() as u64,
            metadata.ctime_nsec() as u64,
        ];
        let stamp = format!("{stamp:?}");
        if let Some(found) = self.recall(path, &stamp)
            && self.want(&self.place_of(&found))
        {
            compare(digest, &found)?;
            return Ok(self.find(path, Some(&found)));
        }
        let found = self.unpack(file, digest)?;
        self.note(path, stamp, &found);
        Ok(self.find(path, Some(&found)))
    }

    fn directory_with(&self, path: &Path, digest: Option<&str>) -> Result<Image, Trouble> {
        if let Some(digest) = digest {
            // Before it is read: what is changed meanwhile has another stamp than the one that is kept.
            let stamp = tree_digest::stamp(path).map_err(Trouble::Io)?;
            let found = match self.recall(path, &stamp) {
                Some(found) => found,
                None => tree_digest::digest(path).map_err(Trouble::Io)?,
            };
            compare(Some(digest), &found)?;
            self.note(path, stamp, &found);
        }
        Ok(self.find(path, digest))
    }

    /// Reads the archive once: what is hashed is what is unpacked.
    fn unpack(&self, file: File, declared: Option<&str>) -> Result<String, Trouble> {
        let aside = self.directory.join(format!("{UNFINISHED}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        DirBuilder::new().mode(0o700).create(&aside).map_err(Trouble::Io)?;
        let unpacked = unpack_hashed(file, &aside).and_then(|found| {
            compare(declared, &found)?;
            check_system(&aside)?;
            let place = self.place_of(&found);
            let on_disk = File::open(&self.directory).map_err(Trouble::Io)?;
            rustix::fs::syncfs(&on_disk).map_err(|error| Trouble::Io(error.into()))?;
            match fs::rename(&aside, &place) {
                // It is there already, whole and with the same digest.
                Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => self.discard(&aside),
                outcome => outcome.map_err(Trouble::Io)?,
            }
            on_disk.sync_all().map_err(Trouble::Io)?;
            Ok(found)
        });
        if unpacked.is_err() {
            self.discard(&aside);
        }
        unpacked
    }

    fn discard(&self, path: &Path) {
        let name = path.file_name().unwrap_or_default();
        if let Err(error) = tree::discard(path, &self.trash.join(name)) {
            tracing::warn!(%error, "what was unpacked in part could not be moved out of the way; the next start does it");
        }
    }

    fn recall(&self, path: &Path, stamp: &str) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(path).filter(|(of, _)| of == stamp).map(|(_, digest)| digest.clone())
    }

    fn note(&self, path: &Path, stamp: String, digest: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), (stamp, digest.to_owned()));
    }

    /// Notes that it is wanted just now; whether it is there. From then on it is too young to be removed, until its steward holds it.
    fn want(&self, image: &Path) -> bool {
        let Ok(opened) = File::open(image) else { return false };
        let as_it_is = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        // Whoever removes it has it alone for a moment, and looks at the time in that moment.
        let noted = flock(&opened, FlockOperation::LockShared)
            .and_then(|()| futimens(&opened, &Timestamps { last_access: as_it_is, last_modification: now }));
        let still_there = |opened: fs::Metadata| fs::metadata(image).is_ok_and(|found| found.ino() == opened.ino() && found.is_dir());
        noted.is_ok() && opened.metadata().is_ok_and(still_there)
    }

    /// The digests of those that were not wanted for a while.
    pub fn unwanted_lately(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let (name, metadata) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata()?);
            if name.len() == 64 && metadata.is_dir() && !is_young(&metadata) {
                found.push(format!("sha256:{name}"));
            }
        }
        Ok(found)
    }

    /// Moves one into the trash, unless an awake environment uses it or somebody has wanted it lately; whether it did.
    pub fn remove(&self, digest: &str) -> io::Result<bool> {
        let _alone = self.unpacking.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.place_of(digest);
        let held = match File::open(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            outcome => outcome?,
        };
        match flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            outcome => outcome?,
        }
        // It may have been wanted again since it was listed.
        if is_young(&held.metadata()?) {
            return Ok(false);
        }
        tree::discard(&place, &self.trash.join(place.file_name().unwrap_or_default()))
    }

    pub fn size(&self) -> u64 {
        tree::size(&self.directory)
    }
}

fn is_young(image: &fs::Metadata) -> bool {
    image.modified().ok().and_then(|then| then.elapsed().ok()).unwrap_or_default() < YOUNG
}

fn compare(declared: Option<&str>, found: &str) -> Result<(), Trouble> {
    match declared {
        Some(declared) if !declared.eq_ignore_ascii_case(found) => {
            Err(Trouble::Different { declared: declared.to_owned(), found: found.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Hashes whatever is read through it.
struct Hashing<R> {
    from: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(buffer)?;
        self.hash.update(&buffer[..length]);
        Ok(length)
    }
}

fn unpack_hashed(file: File, directory: &Path) -> Result<String, Trouble> {
    let mut hashing = Hashing { from: io::BufReader::with_capacity(1 << 20, file), hash: Sha256::new() };
    let mut start = Vec::new();
    hashing.by_ref().take(6).read_to_end(&mut start).map_err(Trouble::Io)?;
    let whole = io::Cursor::new(start.clone()).chain(&mut hashing);
    match start.as_slice() {
        [0x1f, 0x8b, ..] => drop(unpack::unpack(flate2::read::MultiGzDecoder::new(whole), directory)?),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', b'X', b'Z', ..] | [b'B', b'Z', b'h', ..] => {
            return Err(Trouble::Unreadable(
                "it is compressed in a way that is not read: give it as it is (`zstd -d`, `xz -d`, `bunzip2`) or with gzip".to_owned(),
            ));
        }
        _ => drop(unpack::unpack(whole, directory)?),
    }
    // The digest is of the file, to its last byte.
    io::copy(&mut hashing, &mut io::sink()).map_err(Trouble::Io)?;
    Ok(tree_digest::written(hashing.hash))
}

/// Refuses what is surely no system, so that the mistake is seen where it is made.
fn check_system(directory: &Path) -> Result<(), Trouble> {
    let has = |name: &str| fs::symlink_metadata(directory.join(name)).is_ok();
    if has("oci-layout") || (has("manifest.json") && !has("usr") && !has("bin")) {
        return Err(Trouble::Unreadable(
            "it holds an image's layers and not its files: use what `podman export` writes, not `podman save`".to_owned(),
        ));
    }
    if fs::read_dir(directory).map_err(Trouble::Io)?.next().is_none() {
        return Err(Trouble::Unreadable("it is empty".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
