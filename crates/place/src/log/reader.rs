//! Reads the log of a process, also while it is being written.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use stead_domain::Timestamp;
use stead_domain::ids::ProcessId;
use stead_domain::process::{OutputStream, ProcessExit};

use super::frame::{Header, Kind};
use super::segments;

/// Bytes of one stream, or the notice that some are no longer there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Bytes { stream: OutputStream, offset: u64, at: Timestamp, bytes: Vec<u8> },
    Gap { from: u64, to: u64 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub pieces: Vec<Piece>,
    pub next: u64,
}

/// Output from an offset on, at most about so many bytes. None when there is no trace of the process.
pub fn read(directory: &Path, process: ProcessId, from: u64, stream: Option<OutputStream>, at_most: usize) -> io::Result<Option<Found>> {
    let segments = segments::list(directory, process)?;
    if segments.is_empty() {
        return Ok(None);
    }
    let mut found = Found { pieces: Vec::new(), next: from };
    let mut size = 0;
    // The segment that the offset lies in, or would lie in if it were still there.
    let start = segments.partition_point(|segment| segment.begins <= from).saturating_sub(1);
    for segment in &segments[start..] {
        let bytes = match fs::read(&segment.path) {
            // Given up while we were on the way; the next one will show the gap.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            outcome => outcome?,
        };
        let mut rest = bytes.as_slice();
        while let Some((header, payload)) = Header::parse(rest) {
            rest = &rest[super::frame::HEADER + payload.len()..];
            let Kind::Output(came_from) = header.kind else { continue };
            let end = header.offset + header.covers();
            if end <= found.next {
                continue;
            }
            if size >= at_most {
                return Ok(Some(found));
            }
            if header.offset > found.next {
                found.pieces.push(Piece::Gap { from: found.next, to: header.offset });
                found.next = header.offset;
            }
            if stream.is_some_and(|stream| stream != came_from) {
                found.next = end;
                continue;
            }
            let skipped = (found.next - header.offset) as usize;
            let wanted = &payload[skipped..];
            let taken = &wanted[..wanted.len().min(at_most - size)];
            size += taken.len();
            add(&mut found.pieces, came_from, found.next, header.at, taken);
            found.next += taken.len() as u64;
            if taken.len() < wanted.len() {
                return Ok(Some(found));
            }
        }
    }
    Ok(Some(found))
}

/// Appends to the last piece when it goes on where that one ends.
fn add(pieces: &mut Vec<Piece>, stream: OutputStream, offset: u64, at: Timestamp, taken: &[u8]) {
    if let Some(Piece::Bytes { stream: last, offset: begins, bytes, .. }) = pieces.last_mut()
        && *last == stream
        && *begins + bytes.len() as u64 == offset
    {
        bytes.extend(taken);
    } else {
        pieces.push(Piece::Bytes { stream, offset, at, bytes: taken.to_vec() });
    }
}

/// What a log says at its end.
#[derive(Clone, Debug)]
pub struct LastWords {
    /// Where it ends.
    pub end: u64,
    /// How its process did, if that is written down.
    pub exit: Option<ProcessExit>,
    /// Nothing more will come.
    pub closed: bool,
    /// When something was last written.
    pub at: Timestamp,
}

/// What a log says at its end. None when there is no trace of the process.
pub fn last_words(directory: &Path, process: ProcessId) -> io::Result<Option<LastWords>> {
    let mut words: Option<LastWords> = None;
    // The exit is near the end, and what a child left behind wrote may come after it.
    for segment in segments::list(directory, process)?.iter().rev() {
        let (bytes, modified) = match fs::read(&segment.path).and_then(|bytes| Ok((bytes, fs::metadata(&segment.path)?.mtime()))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            outcome => outcome?,
        };
        let at = Timestamp::from_microseconds(modified.saturating_mul(1_000_000));
        let mut here = LastWords { end: segment.begins, exit: None, closed: false, at };
        let mut rest = bytes.as_slice();
        while let Some((header, payload)) = Header::parse(rest) {
            rest = &rest[super::frame::HEADER + payload.len()..];
            here.end = header.offset + header.covers();
            here.at = header.at;
            match header.kind {
                Kind::Exit => here.exit = serde_json::from_slice(payload).ok(),
                Kind::Closed => here.closed = true,
                Kind::Output(_) => {}
            }
        }
        let known = words.get_or_insert_with(|| here.clone());
        if here.exit.is_some() {
            known.exit = here.exit;
            break;
        }
    }
    Ok(words)
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
