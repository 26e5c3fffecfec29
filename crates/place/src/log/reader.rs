//! Reads the log of a process, also while it is being written.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use stead_domain::Timestamp;
use stead_domain::ids::ProcessId;
use stead_domain::process::{OutputStream, ProcessExit};

use super::frame::{Header, Kind};
use super::opening::{Identity, OPENING};
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
    /// Where in the files that is.
    pub mark: Option<Mark>,
}

/// A place in the files of a log at which a frame begins: whoever goes on from there need not look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where the segment begins.
    pub segment: u64,
    /// In its file.
    pub position: u64,
}

/// Output from an offset on, at most about so many bytes; `near` is what the reading before ended with. None when there is no trace of the
/// process.
pub fn read(
    directory: &Path,
    process: ProcessId,
    from: u64,
    near: Option<Mark>,
    stream: Option<OutputStream>,
    at_most: usize,
) -> io::Result<Option<Found>> {
    let mut found = Found { pieces: Vec::new(), next: from, mark: None };
    let mut size = 0;
    let opened = match near {
        Some(mark) => open(directory, process, mark)?,
        None => None,
    };
    let mut window = match opened {
        Some(window) => window,
        None => match first_of(directory, process, from)? {
            Some(window) => window,
            None => return Ok(None),
        },
    };
    loop {
        while size < at_most
            && let Some((header, payload)) = window.frame(at_most - size)?
        {
            let length = super::frame::HEADER + payload.len();
            let end = header.offset + header.covers();
            let Kind::Output(came_from) = header.kind else {
                window.pass(length);
                continue;
            };
            if end > found.next {
                if header.offset > found.next {
                    found.pieces.push(Piece::Gap { from: found.next, to: header.offset });
                    found.next = header.offset;
                }
                if stream.is_some_and(|stream| stream != came_from) {
                    found.next = end;
                } else {
                    let wanted = &payload[(found.next - header.offset) as usize..];
                    let taken = &wanted[..wanted.len().min(at_most - size)];
                    size += taken.len();
                    add(&mut found.pieces, came_from, found.next, header.at, taken);
                    found.next += taken.len() as u64;
                }
            }
            if found.next >= end {
                window.pass(length);
            }
        }
        found.mark = Some(window.mark());
        if size >= at_most || !window.advance(directory, process, found.next)? {
            return Ok(Some(found));
        }
    }
}

/// The segment that the offset lies in, or would lie in if it were still there.
fn first_of(directory: &Path, process: ProcessId, from: u64) -> io::Result<Option<Window>> {
    let segments = segments::list(directory, process)?;
    let start = segments.partition_point(|segment| segment.begins <= from).saturating_sub(1);
    for segment in segments.get(start..).unwrap_or_default() {
        // One that was given up while we were on the way is shown by the next one as a gap.
        if let Some(window) = open(directory, process, Mark { segment: segment.begins, position: 0 })? {
            return Ok(Some(window));
        }
    }
    Ok(None)
}

fn open(directory: &Path, process: ProcessId, mark: Mark) -> io::Result<Option<Window>> {
    match File::open(segments::path(directory, process, mark.segment)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => Ok(Some(Window {
            file: outcome?,
            segment: mark.segment,
            identity: Identity::Another,
            position: mark.position,
            bytes: Vec::new(),
            passed: 0,
        })),
    }
}

/// A part of a segment, read as it is needed.
struct Window {
    file: File,
    segment: u64,
    /// Not known before something is there, and the same from then on: whatever else the file becomes has another key.
    identity: Identity,
    /// Where in the file `bytes` begin.
    position: u64,
    bytes: Vec<u8>,
    /// How much of them is done with.
    passed: usize,
}

/// Heads and small frames are read many at a time.
const AHEAD: usize = 16 << 10;

impl Window {
    fn mark(&self) -> Mark {
        Mark { segment: self.segment, position: self.position + self.passed as u64 }
    }

    fn pass(&mut self, length: usize) {
        self.passed += length;
    }

    /// The next whole frame; none when it is not there, or not yet. Whoever wants so many bytes has them read in one go.
    fn frame(&mut self, wanted: usize) -> io::Result<Option<(Header, &[u8])>> {
        if !self.is_known()? || !self.holds(super::frame::HEADER, wanted)? {
            return Ok(None);
        }
        let Some(length) = Header::length_of(&self.bytes[self.passed..]) else { return Ok(None) };
        if !self.holds(super::frame::HEADER + length, wanted)? {
            return Ok(None);
        }
        Ok(Header::parse(self.identity.key(), &self.bytes[self.passed..]))
    }

    /// Whether the file holds something of this segment.
    fn is_known(&mut self) -> io::Result<bool> {
        if self.identity == Identity::Another {
            let mut bytes = [0; OPENING];
            let read = self.file.read_at(&mut bytes, 0)?;
            self.identity = Identity::of(&bytes[..read], self.segment);
            self.position = self.position.max(self.identity.frames_at() as u64);
        }
        Ok(self.identity != Identity::Another)
    }

    /// Reads on until so many bytes are there; whether they are.
    fn holds(&mut self, length: usize, wanted: usize) -> io::Result<bool> {
        if self.bytes.len() - self.passed >= length {
            return Ok(true);
        }
        let end = self.position + (self.passed + length) as u64;
        // A length that is nonsense asks for what no file holds.
        if self.file.metadata()?.len() < end {
            return Ok(false);
        }
        self.position += self.passed as u64;
        self.bytes.drain(..self.passed);
        self.passed = 0;
        let (known, room) = (self.bytes.len(), length.max(wanted) + AHEAD);
        self.bytes.resize(room, 0);
        let mut filled = known;
        while filled < room {
            match self.file.read_at(&mut self.bytes[filled..], self.position + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.truncate(filled);
        Ok(filled >= length)
    }

    /// Goes on with what comes after this segment; false when nothing does.
    fn advance(&mut self, directory: &Path, process: ProcessId, reached: u64) -> io::Result<bool> {
        let present = self.segment;
        // What was read of a frame that was not whole is read again.
        self.position += self.passed as u64;
        self.passed = 0;
        self.bytes.clear();
        // Where this one ends the next one begins, unless it was given up.
        if reached > present
            && let Some(next) = open(directory, process, Mark { segment: reached, position: 0 })?
        {
            *self = next;
            return Ok(true);
        }
        for segment in segments::list(directory, process)?.into_iter().filter(|segment| segment.begins > present) {
            // It was written to before the next one was made, and maybe after we looked.
            if segment.begins > reached && self.frame(0)?.is_some() {
                return Ok(true);
            }
            if let Some(next) = open(directory, process, Mark { segment: segment.begins, position: 0 })? {
                *self = next;
                return Ok(true);
            }
        }
        Ok(false)
    }
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
        let identity = Identity::of(&bytes, segment.begins);
        let mut rest = if identity == Identity::Another { &[] } else { &bytes[identity.frames_at()..] };
        while let Some((header, payload)) = Header::parse(identity.key(), rest) {
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
