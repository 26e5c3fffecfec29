//! Reading a file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use rustix::fs::OFlags;
use stead_domain::files::{FilePath, FileProblem, FileWord};

use super::entries::entry;
use super::voice::{PIECE, Voice};
use crate::tree::private;
use crate::tree::trouble::{At, Result, as_path, failure};

/// Says first what it is, then its bytes; how far the file reaches. One that grows or shrinks meanwhile is read as far as it is there.
pub fn read(path: &FilePath, offset: u64, length: Option<u64>, voice: &mut Voice) -> Result<u64> {
    let (file, size) = open(path, OpenOptions::new().read(true))?;
    let metadata = file.metadata().at(path)?;
    voice.say(&FileWord::Entries { entries: vec![entry(path, &metadata)] }, &[]).at(path)?;
    let (mut at, mut left) = (offset, length.unwrap_or(u64::MAX));
    let mut buffer = vec![0; PIECE];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        let length = file.read_at(&mut buffer[..most], at).at(path)?;
        if length == 0 {
            break;
        }
        voice.say(&FileWord::Bytes, &buffer[..length]).at(path)?;
        at += length as u64;
        left -= length as u64;
    }
    Ok(size)
}

/// Opens what is a file and nothing else, without waiting for whoever is at the other end of something else.
pub fn open(path: &FilePath, options: &mut OpenOptions) -> Result<(File, u64)> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits() as i32).open(as_path(path)).at(path)?;
    let metadata = file.metadata().at(path)?;
    if metadata.is_dir() {
        return Err(failure(path, FileProblem::IsADirectory, ""));
    }
    if !metadata.is_file() {
        return Err(failure(path, FileProblem::NotAFile, ""));
    }
    private::check(&file, metadata.dev(), path)?;
    Ok((file, metadata.len()))
}
