//! Writes the log of one process.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use stead_domain::Timestamp;
use stead_domain::ids::ProcessId;
use stead_domain::process::ProcessExit;

use super::frame::{Header, Kind};
use super::opening::{Key, Opening};
use super::segments::{self, Segment};
use super::spare;

/// What is made ready for the first frames: a block of the filesystem.
const ROOM: u64 = 4 << 10;

/// How much is kept of one process.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    pub segment: u64,
    pub total: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Self { segment: 1 << 20, total: 64 << 20 }
    }
}

impl Caps {
    /// So much in all; below a few segments it cannot be less.
    pub fn of(total: Option<u64>) -> Self {
        let usual = Self::default();
        Self { total: total.unwrap_or(usual.total), ..usual }
    }

    /// Segments that are never given up: how a program began is as telling as how it ended.
    fn head(self) -> usize {
        usize::try_from(self.total / self.segment / 4).unwrap_or(1).max(1)
    }

    fn segments(self) -> usize {
        usize::try_from(self.total / self.segment).unwrap_or(1).max(self.head() + 2)
    }

    /// What somebody who follows may have been sent and not received: as much is kept behind them, so that they lose nothing with a server
    /// that dies with it in its hands.
    fn under_way(self) -> u64 {
        self.total / 4
    }
}

pub struct LogWriter {
    directory: PathBuf,
    process: ProcessId,
    caps: Caps,
    file: File,
    /// Bytes in the present segment.
    filled: u64,
    end: u64,
    head: usize,
    /// Segments after the head, the present one last.
    tail: VecDeque<Segment>,
    /// Something was written that is not on the disk yet.
    dirty: bool,
    /// Earlier segments that are not on the disk yet, by where they begin. A fast writer does not wait for the disk between two of them.
    unsynced: Vec<(u64, File)>,
    /// Where the present segment begins.
    begins: u64,
    /// Of the present segment, if its file was or will be another one.
    key: Option<Key>,
    /// From here on nothing is given up.
    held: Option<u64>,
}

impl LogWriter {
    /// Begins a log. Fails with [`ErrorKind::AlreadyExists`] when there is one.
    pub fn create(directory: &Path, process: ProcessId, caps: Caps) -> io::Result<Self> {
        Self::create_from(None, directory, process, caps)
    }

    /// The same, in the file that [`super::spare()`] made if there is one.
    pub fn create_from(spare: Option<File>, directory: &Path, process: ProcessId, caps: Caps) -> io::Result<Self> {
        let path = segments::first(directory, process);
        let file = match spare {
            Some(spare) if spare::name(directory, process)? => spare,
            _ => match make(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    fs::create_dir_all(directory)?;
                    make(&path)?
                }
                outcome => outcome?,
            },
        };
        Ok(Self {
            directory: directory.to_owned(),
            process,
            caps,
            file,
            filled: 0,
            end: 0,
            head: 1,
            tail: VecDeque::new(),
            dirty: true,
            unsynced: Vec::new(),
            begins: 0,
            key: None,
            held: None,
        })
    }

    /// Has the disk know the file, its name and its first block before anything is in them. What is written there later is on the disk as
    /// soon as that block is, and nothing about the file has to follow it: how a short program ended can be told much sooner. Readers find
    /// no frame in the zeros. Where the disk is full they are left out, and only the sync at the end takes longer.
    pub fn make_room(&mut self) {
        if self.head == 1 && self.filled < ROOM && self.file.write_all_at(&[0; ROOM as usize][self.filled as usize..], self.filled).is_ok()
        {
            let _ = self.sync();
        }
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn is_dirty(&self) -> bool {
        self.dirty || !self.unsynced.is_empty()
    }

    /// Gives up nothing that somebody who follows, and has got so far, may still need; as much as is past the cap when there is nobody.
    pub fn hold(&mut self, reached: Option<u64>) -> io::Result<()> {
        self.held = reached.map(|reached| reached.saturating_sub(self.caps.under_way()));
        self.give_up()
    }

    /// Whether more fits without giving up what is held. A log takes it all the same, because what a program left in its pipes must go
    /// somewhere.
    pub fn has_room(&self) -> bool {
        let begins_another = self.filled >= self.caps.segment && self.head + self.tail.len() >= self.caps.segments();
        !begins_another || self.may_give_up_the_oldest()
    }

    fn may_give_up_the_oldest(&self) -> bool {
        let ends = self.tail.get(1).map_or(self.end, |next| next.begins);
        self.held.is_none_or(|held| ends <= held)
    }

    /// Appends what came from a stream. On an error nothing of it counts, and the same call may be made again.
    pub fn append(&mut self, kind: Kind, at: Timestamp, bytes: &[u8]) -> io::Result<()> {
        if self.filled >= self.caps.segment {
            self.next_segment()?;
        }
        let header = Header::new(self.key, kind, self.end, at, bytes);
        let start = self.filled;
        if let Err(error) = self.write_whole(&header.to_bytes(), bytes) {
            // Half a frame would hide everything after it.
            let _ = self.file.set_len(start);
            let _ = io::Seek::seek(&mut self.file, io::SeekFrom::Start(start));
            self.filled = start;
            return Err(error);
        }
        self.end += header.covers();
        // That nothing more comes is found out again without it.
        self.dirty |= kind != Kind::Closed;
        Ok(())
    }

    /// Writes a frame, and before the first one what the segment begins with.
    fn write_whole(&mut self, header: &[u8], bytes: &[u8]) -> io::Result<()> {
        let opening = self.key.filter(|_| self.filled == 0).map(|key| Opening { begins: self.begins, key }.to_bytes());
        let parts = [opening.as_ref().map_or(&[][..], |opening| opening), header, bytes];
        let mut slices = parts.map(IoSlice::new);
        let mut rest = &mut slices[..];
        // Takes away empty ones, too.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.file.write_vectored(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.filled += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Writes down how it ended and makes everything so far durable: from here on it may be told.
    pub fn exit(&mut self, at: Timestamp, exit: &ProcessExit) -> io::Result<()> {
        let text = serde_json::to_vec(exit).map_err(io::Error::other)?;
        self.append(Kind::Exit, at, &text)?;
        self.sync()
    }

    pub fn sync(&mut self) -> io::Result<()> {
        #[cfg(feature = "steward")]
        self.unsynced.iter().for_each(|(_, earlier)| stead_sandbox::begin_writing(earlier));
        while let Some((_, earlier)) = self.unsynced.last() {
            earlier.sync_data()?;
            self.unsynced.pop();
        }
        if self.dirty {
            self.file.sync_data()?;
            self.dirty = false;
        }
        Ok(())
    }

    fn next_segment(&mut self) -> io::Result<()> {
        let path = segments::named(&self.directory, self.process, self.end);
        let in_head = self.head < self.caps.head();
        let key = if in_head { None } else { Some(Key::random()?) };
        let file = match self.take_over(&path)? {
            Some(file) => file,
            None => match make(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    fs::create_dir_all(segments::more(&self.directory, self.process))?;
                    make(&path)?
                }
                outcome => outcome?,
            },
        };
        let earlier = std::mem::replace(&mut self.file, file);
        if self.dirty {
            self.unsynced.push((self.begins, earlier));
        }
        self.begins = self.end;
        self.key = key;
        self.dirty = true;
        self.filled = 0;
        if in_head {
            self.head += 1;
        } else {
            self.tail.push_back(Segment { begins: self.end, path });
        }
        self.give_up()
    }

    /// Gives up the oldest segment where one must go, and has its file be the one that begins. Until something is written to it, it tells by
    /// its opening that it is not; see [`Opening`].
    fn take_over(&mut self, path: &Path) -> io::Result<Option<File>> {
        if self.head + self.tail.len() < self.caps.segments() || !self.may_give_up_the_oldest() {
            return Ok(None);
        }
        let Some(oldest) = self.tail.front() else { return Ok(None) };
        let file = match OpenOptions::new().write(true).open(&oldest.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            outcome => outcome?,
        };
        fs::rename(&oldest.path, path)?;
        let begins = oldest.begins;
        self.tail.pop_front();
        self.unsynced.retain(|(unsynced, _)| *unsynced != begins);
        Ok(Some(file))
    }

    fn give_up(&mut self) -> io::Result<()> {
        while self.head + self.tail.len() > self.caps.segments() && self.may_give_up_the_oldest() {
            if let Some(oldest) = self.tail.pop_front() {
                // What is given up need not reach the disk.
                self.unsynced.retain(|(begins, _)| *begins != oldest.begins);
                fs::remove_file(oldest.path)?;
            }
        }
        Ok(())
    }
}

fn make(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
