//! What is there: one name, or a directory's.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::io::Errno;
use stead_domain::Timestamp;
use stead_domain::changes::EntryType;
use stead_domain::files::{FileEntry, FilePath, FileProblem, FileWord};

use super::voice::Voice;
use crate::tree::trouble::{At, Result, as_path};

/// What is said at once.
pub const BATCH: usize = 200;
/// No message is longer than a mebibyte, and a byte may take six to be told.
const BATCH_BYTES: usize = 64 << 10;

pub fn stat(path: &FilePath, voice: &mut Voice) -> Result<()> {
    let metadata = fs::symlink_metadata(as_path(path)).at(path)?;
    voice.say(&FileWord::Entries { entries: vec![entry(path, &metadata)] }, &[]).at(path)
}

/// Says what comes after `after`, and whether there is more than `limit`.
pub fn list(path: &FilePath, recursive: bool, after: Option<&FilePath>, limit: u64, voice: &mut Voice) -> Result<bool> {
    let mut listing = Listing { recursive, left: limit, batch: Vec::new(), bytes: 0, voice };
    let more = listing.names(path, names_in(path)?, after)?;
    listing.flush(path)?;
    Ok(more)
}

/// In the order of their bytes.
fn names_in(path: &FilePath) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for found in fs::read_dir(as_path(path)).at(path)? {
        names.push(found.at(path)?.file_name());
    }
    names.sort_unstable_by(|left, right| left.as_bytes().cmp(right.as_bytes()));
    Ok(names)
}

struct Listing<'v> {
    recursive: bool,
    left: u64,
    batch: Vec<FileEntry>,
    /// About as long as the batch is when it is said.
    bytes: usize,
    voice: &'v mut Voice,
}

impl Listing<'_> {
    /// Whether it was cut off.
    fn names(&mut self, path: &FilePath, names: Vec<OsString>, after: Option<&FilePath>) -> Result<bool> {
        // The name in this directory that the last page came to.
        let base = path.join(b"");
        let reached = after.and_then(|after| after.as_bytes().strip_prefix(base.as_bytes()));
        let reached = reached.map(|rest| rest.split(|byte| *byte == b'/').next().unwrap_or(rest));
        for name in names {
            let name = name.as_bytes();
            if reached.is_some_and(|reached| name < reached) {
                continue;
            }
            let inner = path.join(name);
            let metadata = match fs::symlink_metadata(as_path(&inner)) {
                Ok(metadata) => metadata,
                // Nothing below it could be named in any other call either: a list that left it out would look whole.
                Err(error) if error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error()) => return Err(error).at(&inner),
                // Gone by now, or closed to us.
                Err(_) => continue,
            };
            // Told of on the last page, though perhaps not all that it holds.
            let is_known = reached == Some(name);
            if !is_known {
                if self.left == 0 {
                    return Ok(true);
                }
                self.left -= 1;
                let entry = entry(&inner, &metadata);
                self.bytes += entry.path.len() * 3 + entry.target.as_ref().map_or(0, |target| target.len() * 3);
                self.batch.push(entry);
                if self.batch.len() >= BATCH || self.bytes >= BATCH_BYTES {
                    self.flush(path)?;
                }
            }
            if self.recursive && metadata.is_dir() {
                // One that is closed to us, or gone by now, has nothing to tell.
                match names_in(&inner) {
                    Ok(names) => {
                        if self.names(&inner, names, if is_known { after } else { None })? {
                            return Ok(true);
                        }
                    }
                    Err(failure) if failure.why == FileProblem::TooLong => return Err(failure),
                    Err(_) => {}
                }
            }
        }
        Ok(false)
    }

    fn flush(&mut self, path: &FilePath) -> Result<()> {
        self.bytes = 0;
        let entries = std::mem::take(&mut self.batch);
        self.voice.say(&FileWord::Entries { entries }, &[]).at(path)
    }
}

pub fn entry(path: &FilePath, metadata: &Metadata) -> FileEntry {
    let kind = metadata.file_type();
    let r#type = match kind {
        kind if kind.is_dir() => EntryType::Directory,
        kind if kind.is_file() => EntryType::File,
        kind if kind.is_symlink() => EntryType::Symlink,
        kind if kind.is_fifo() => EntryType::Fifo,
        kind if kind.is_socket() => EntryType::Socket,
        _ => EntryType::Device,
    };
    let target = kind.is_symlink().then(|| fs::read_link(as_path(path)).ok()).flatten();
    let target = target.map(|target| target.into_os_string().into_vec());
    let size = if metadata.is_dir() { 0 } else { metadata.len() };
    FileEntry::new(path, r#type, size, metadata.mode(), modified_at(metadata), target.as_deref())
}

pub fn modified_at(metadata: &Metadata) -> Timestamp {
    Timestamp::from_microseconds(metadata.mtime().saturating_mul(1_000_000).saturating_add(metadata.mtime_nsec() / 1000))
}
