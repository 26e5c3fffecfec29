//! Watching: what changes is told as it happens, also in directories that are made meanwhile.

use std::collections::HashMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use stead_domain::file_watch::FileNamed;
use stead_domain::files::{FileEvent, FilePath, FileProblem, FileWord};

use super::voice::Voice;
use crate::tree::trouble::{At, Result, as_path, failure};

const BUFFER: usize = 64 << 10;
/// What is told at once.
const BATCH: usize = 500;
/// How long the second half of a move may be in coming.
const HALF: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

pub fn watch(path: &FilePath, recursive: bool, voice: &mut Voice) -> Result<FileWord> {
    let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).at(path)?;
    let mut watching = Watching { queue, recursive, places: HashMap::new(), half: None, told: Vec::new() };
    fs::symlink_metadata(as_path(path)).at(path)?;
    let root = watching.add(path, false, true)?;
    voice.say(&FileWord::Begun, &[]).at(path)?;
    loop {
        let patience = watching.half.is_some().then_some(&HALF);
        let stream = voice.stream();
        let mut watched = [PollFd::new(&watching.queue, PollFlags::IN), PollFd::new(&stream, PollFlags::IN)];
        match poll(&mut watched, patience) {
            Err(Errno::INTR) => continue,
            outcome => outcome.at(path)?,
        };
        // Whoever listens sends nothing: this is the end of the stream.
        if !watched[1].revents().is_empty() {
            return Ok(FileWord::Done { size: 0, more: false, count: 0 });
        }
        let is_over = if watched[0].revents().is_empty() {
            watching.settle_half();
            false
        } else {
            watching.read(path, root)?
        };
        for events in watching.told.chunks(BATCH) {
            voice.say(&FileWord::Events { events: events.to_vec() }, &[]).at(path)?;
        }
        watching.told.clear();
        if is_over {
            return Ok(FileWord::Done { size: 0, more: false, count: 0 });
        }
    }
}

/// An event of the kernel, taken out of its buffer.
struct Seen {
    place: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<Vec<u8>>,
}

struct Watching {
    queue: OwnedFd,
    recursive: bool,
    places: HashMap<i32, FilePath>,
    /// Something that left, and may arrive elsewhere.
    half: Option<(u32, FilePath, bool)>,
    told: Vec<FileEvent>,
}

impl Watching {
    /// Watches a directory; with `tell`, what it holds already is told as new. What was named itself may also be a file, or a link.
    fn add(&mut self, path: &FilePath, tell: bool, is_root: bool) -> Result<Option<i32>> {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::EXCL_UNLINK
            | if is_root { WatchFlags::empty() } else { WatchFlags::DONT_FOLLOW | WatchFlags::ONLYDIR };
        let place = match inotify::add_watch(&self.queue, as_path(path), flags) {
            Ok(place) => place,
            Err(Errno::NOSPC) => return Err(failure(path, FileProblem::Full, "more directories than may be watched")),
            // Gone by now, or closed to us.
            Err(_) if !is_root => return Ok(None),
            Err(error) => return Err(error).at(path),
        };
        self.places.insert(place, path.clone());
        if self.recursive {
            self.inner(path, tell)?;
        }
        Ok(Some(place))
    }

    fn inner(&mut self, path: &FilePath, tell: bool) -> Result<()> {
        let Ok(names) = fs::read_dir(as_path(path)) else { return Ok(()) };
        for found in names.flatten() {
            let inner = path.join(found.file_name().as_bytes());
            let is_directory = found.file_type().is_ok_and(|kind| kind.is_dir());
            if tell {
                self.told.push(FileEvent::Created(FileNamed::new(&inner, is_directory)));
            }
            if is_directory {
                self.add_quietly(&inner, tell)?;
            }
        }
        Ok(())
    }

    /// One of many: its going away in this moment is no failure.
    fn add_quietly(&mut self, path: &FilePath, tell: bool) -> Result<()> {
        match self.add(path, tell, false) {
            Err(failure) if failure.why != FileProblem::Full => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Takes what the kernel has to say; whether what was asked for is gone.
    fn read(&mut self, root: &FilePath, root_place: Option<i32>) -> Result<bool> {
        let mut seen = Vec::new();
        {
            let mut buffer = [MaybeUninit::uninit(); BUFFER];
            let mut reader = Reader::new(self.queue.as_fd(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => seen.push(Seen {
                        place: event.wd(),
                        flags: event.events(),
                        cookie: event.cookie(),
                        name: event.file_name().map(|name| name.to_bytes().to_vec()),
                    }),
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error).at(root),
                }
                if reader.is_buffer_empty() {
                    break;
                }
            }
        }
        let mut is_over = false;
        for event in seen {
            is_over |= self.take(&event, root, root_place)?;
        }
        Ok(is_over)
    }

    fn take(&mut self, event: &Seen, root: &FilePath, root_place: Option<i32>) -> Result<bool> {
        if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.settle_half();
            self.told.push(FileEvent::Overflow);
            // What was made while nobody was told is watched from now on.
            if self.recursive {
                self.inner(root, false)?;
            }
            return Ok(false);
        }
        let Some(directory) = self.places.get(&event.place).cloned() else { return Ok(false) };
        if event.flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED) {
            if event.flags.contains(ReadFlags::IGNORED) {
                self.places.remove(&event.place);
            }
            let is_over = Some(event.place) == root_place && !event.flags.contains(ReadFlags::IGNORED);
            if is_over {
                self.settle_half();
                self.told.push(FileEvent::Removed(FileNamed::new(root, false)));
            }
            return Ok(is_over);
        }
        let path = event.name.as_deref().map_or_else(|| directory.clone(), |name| directory.join(name));
        let is_directory = event.flags.contains(ReadFlags::ISDIR);
        let is_other_half =
            event.flags.contains(ReadFlags::MOVED_TO) && self.half.as_ref().is_some_and(|(cookie, ..)| *cookie == event.cookie);
        if is_other_half && let Some((_, from, _)) = self.half.take() {
            self.moved(&from, &path);
            self.told.push(FileEvent::Moved { from: FileNamed::new(&from, is_directory), to: FileNamed::new(&path, is_directory) });
            return Ok(false);
        }
        self.settle_half();
        if event.flags.contains(ReadFlags::MOVED_FROM) {
            self.half = Some((event.cookie, path, is_directory));
        } else if event.flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            self.told.push(FileEvent::Created(FileNamed::new(&path, is_directory)));
            if is_directory && self.recursive {
                self.add_quietly(&path, true)?;
            }
        } else if event.flags.contains(ReadFlags::DELETE) {
            self.told.push(FileEvent::Removed(FileNamed::new(&path, is_directory)));
        } else if event.flags.intersects(ReadFlags::MODIFY | ReadFlags::ATTRIB) {
            let modified = FileEvent::Modified(FileNamed::new(&path, is_directory));
            // Many writes to one file are one change.
            if self.told.last() != Some(&modified) {
                self.told.push(modified);
            }
        }
        Ok(false)
    }

    /// What left and did not arrive is gone.
    fn settle_half(&mut self) {
        let Some((_, path, is_directory)) = self.half.take() else { return };
        self.told.push(FileEvent::Removed(FileNamed::new(&path, is_directory)));
        let below = path.join(b"");
        let gone = self.places.iter().filter(|(_, place)| **place == path || place.as_bytes().starts_with(below.as_bytes()));
        for place in gone.map(|(place, _)| *place).collect::<Vec<i32>>() {
            self.places.remove(&place);
            let _ = inotify::remove_watch(&self.queue, place);
        }
    }

    /// Directories keep their watches, and have other paths now.
    fn moved(&mut self, from: &FilePath, to: &FilePath) {
        let below = from.join(b"");
        for place in self.places.values_mut() {
            if place == from {
                *place = to.clone();
            } else if let Some(rest) = place.as_bytes().strip_prefix(below.as_bytes()) {
                *place = to.join(rest);
            }
        }
    }
}
