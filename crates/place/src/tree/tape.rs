//! A tar archive as it arrives: one entry after the other, nothing of it kept.

use std::io;

use bytes::Bytes;
use rustix::fs::{Timespec, Timestamps};
use stead_domain::files::{FileFailure, FilePath, FileProblem};
use tar::{EntryType, Header, PaxExtensions};

use super::trouble::{At, Result, failure};

const BLOCK: usize = 512;
/// What may come before an entry to say its name: longer names than any kernel takes, and no way to fill the memory.
const LARGEST_EXTENSION: u64 = 256 << 10;

pub struct Entry {
    pub kind: EntryType,
    pub name: Vec<u8>,
    pub link: Vec<u8>,
    pub size: u64,
    pub mode: u32,
    modified: Timespec,
}

impl Entry {
    /// How it is named where something is wrong with it.
    pub fn path(&self) -> FilePath {
        FilePath::found(self.name.clone())
    }

    pub fn refuse(&self, why: &str) -> FileFailure {
        failure(&self.path(), FileProblem::Archive, why)
    }

    /// As it was changed; read just now.
    pub fn times(&self) -> Timestamps {
        Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW }, last_modification: self.modified }
    }
}

pub struct Tape<S> {
    /// Gives the next piece; none when that was all.
    source: S,
    path: FilePath,
    piece: Bytes,
    at: usize,
    /// What is left of the present entry, and of the block that it ends in.
    left: u64,
    padding: u64,
}

impl<S: FnMut() -> io::Result<Option<Bytes>>> Tape<S> {
    /// `path` is what a failure is about that belongs to no entry.
    pub fn new(source: S, path: &FilePath) -> Self {
        Self { source, path: path.clone(), piece: Bytes::new(), at: 0, left: 0, padding: 0 }
    }

    /// The next entry; none at the end. What was not read of the one before is passed over.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        let (mut name, mut link, mut extensions) = (None, None, None);
        loop {
            let rest = self.left + self.padding;
            (self.left, self.padding) = (0, 0);
            self.skip(rest)?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = header.entry_size().map_err(|error| self.broken(error))?;
            match header.entry_type() {
                EntryType::GNULongName => name = Some(self.extension(size)?),
                EntryType::GNULongLink => link = Some(self.extension(size)?),
                EntryType::XHeader => extensions = Some(self.extension(size)?),
                // What holds for all that follows is nothing that we keep.
                EntryType::XGlobalHeader => drop(self.extension(size)?),
                kind => {
                    let entry = self.entry(&header, kind, size, name, link, extensions)?;
                    self.expect(if entry.kind.is_file() { entry.size } else { 0 });
                    return Ok(Some(entry));
                }
            }
        }
    }

    fn entry(
        &self,
        header: &Header,
        kind: EntryType,
        mut size: u64,
        name: Option<Vec<u8>>,
        link: Option<Vec<u8>>,
        extensions: Option<Vec<u8>>,
    ) -> Result<Entry> {
        let mut name = name.map_or_else(|| header.path_bytes().into_owned(), ended);
        let mut link = link.map(ended).or_else(|| header.link_name_bytes().map(|link| link.into_owned())).unwrap_or_default();
        let seconds = header.mtime().map_err(|error| self.broken(error))?;
        let mut modified = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 };
        for extension in PaxExtensions::new(extensions.as_deref().unwrap_or_default()) {
            let extension = extension.map_err(|error| self.broken(error))?;
            let value = extension.value_bytes();
            match extension.key_bytes() {
                b"path" => name = value.to_vec(),
                b"linkpath" => link = value.to_vec(),
                b"size" => size = number(value).ok_or_else(|| self.broken("a size is no number"))?,
                b"mtime" => modified = moment(value).unwrap_or(modified),
                _ => {}
            }
        }
        let mode = header.mode().map_err(|error| self.broken(error))?;
        // Old archives know directories only by their names.
        let kind = if kind.is_file() && name.ends_with(b"/") { EntryType::Directory } else { kind };
        Ok(Entry { kind: if kind.is_contiguous() { EntryType::Regular } else { kind }, name, link, size, mode, modified })
    }

    /// The next bytes of the present entry, at most so many as have arrived; none at its end.
    pub fn bytes(&mut self) -> Result<Option<&[u8]>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.at == self.piece.len() && !self.arrive()? {
            return Err(self.broken("it ends too early"));
        }
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.piece.len() - self.at);
        self.at += length;
        self.left -= length as u64;
        Ok(Some(&self.piece[self.at - length..self.at]))
    }

    /// Takes what comes after the end, so that whoever sends it is not left with it.
    pub fn drain(mut self) -> Result<()> {
        while self.arrive()? {}
        Ok(())
    }

    fn expect(&mut self, size: u64) {
        self.left = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
    }

    fn header(&mut self) -> Result<Option<Header>> {
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if block.starts_with(&[0x1f, 0x8b])
            || block.starts_with(b"BZh")
            || block.starts_with(b"\xfd7zXZ")
            || block.starts_with(&[0x28, 0xb5])
        {
            return Err(self.broken("it is compressed, and only plain tar is taken"));
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum = block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum::<u32>();
        if header.cksum().ok() != Some(sum) {
            return Err(self.broken("it is no tar archive, or is damaged"));
        }
        Ok(Some(header))
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > LARGEST_EXTENSION {
            return Err(self.broken(format!("the name of an entry takes {size} bytes")));
        }
        self.expect(size);
        let mut whole = Vec::new();
        while let Some(bytes) = self.bytes()? {
            whole.extend_from_slice(bytes);
        }
        Ok(whole)
    }

    fn fill(&mut self, mut room: &mut [u8]) -> Result<()> {
        while !room.is_empty() {
            if self.at == self.piece.len() && !self.arrive()? {
                return Err(self.broken("it ends too early"));
            }
            let length = room.len().min(self.piece.len() - self.at);
            let (filled, rest) = room.split_at_mut(length);
            filled.copy_from_slice(&self.piece[self.at..self.at + length]);
            self.at += length;
            room = rest;
        }
        Ok(())
    }

    fn skip(&mut self, mut count: u64) -> Result<()> {
        while count > 0 {
            if self.at == self.piece.len() && !self.arrive()? {
                return Err(self.broken("it ends too early"));
            }
            let length = usize::try_from(count).unwrap_or(usize::MAX).min(self.piece.len() - self.at);
            self.at += length;
            count -= length as u64;
        }
        Ok(())
    }

    /// Whether there is more.
    fn arrive(&mut self) -> Result<bool> {
        let piece = (self.source)().at(&self.path)?;
        let is_there = piece.is_some();
        (self.piece, self.at) = (piece.unwrap_or_default(), 0);
        Ok(is_there)
    }

    fn broken(&self, why: impl ToString) -> FileFailure {
        failure(&self.path, FileProblem::Archive, why)
    }
}

/// Without what ends a text.
fn ended(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Seconds with a fraction.
fn moment(text: &[u8]) -> Option<Timespec> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let (tv_sec, nanoseconds) = (seconds.parse::<i64>().ok()?, digits.parse::<i64>().ok()?);
    // Before 1970 the fraction counts backwards.
    Some(if text.starts_with('-') && nanoseconds > 0 {
        Timespec { tv_sec: tv_sec - 1, tv_nsec: 1_000_000_000 - nanoseconds }
    } else {
        Timespec { tv_sec, tv_nsec: nanoseconds }
    })
}
