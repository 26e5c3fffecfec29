//! What is found goes out in large pieces, and soon all the same.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stead_domain::files::FileWord;

use crate::errand::voice::{PIECE, Voice};

/// How long something that was found may wait for more. Each piece wakes the server and whoever reads, which costs more than to find it.
const SOON: Duration = Duration::from_millis(20);

pub struct Outlet<'v>(Mutex<Held<'v>>);

struct Held<'v> {
    voice: &'v mut Voice,
    waiting: Vec<u8>,
    said: Instant,
}

impl<'v> Outlet<'v> {
    pub fn new(voice: &'v mut Voice) -> Self {
        // The first is said at once.
        let said = Instant::now().checked_sub(SOON).unwrap_or_else(Instant::now);
        Self(Mutex::new(Held { voice, waiting: Vec::new(), said }))
    }

    /// Takes whole lines, of one thread after the other. Called with nothing, too: then it may be time for what waits, and if somebody else is
    /// at it that is as good.
    pub fn put(&self, lines: &[u8]) -> io::Result<()> {
        let mut held = match self.0.try_lock() {
            Ok(held) => held,
            Err(_) if lines.is_empty() => return Ok(()),
            Err(_) => self.0.lock().unwrap_or_else(PoisonError::into_inner),
        };
        held.waiting.extend_from_slice(lines);
        let is_time = held.waiting.len() >= PIECE || (!held.waiting.is_empty() && held.said.elapsed() >= SOON);
        if is_time { held.say() } else { Ok(()) }
    }

    pub fn end(self, last: &[u8]) -> io::Result<()> {
        let mut held = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        held.waiting.extend_from_slice(last);
        held.say()
    }
}

impl Held<'_> {
    fn say(&mut self) -> io::Result<()> {
        for piece in self.waiting.chunks(PIECE) {
            self.voice.say(&FileWord::Bytes, piece)?;
        }
        self.waiting.clear();
        self.said = Instant::now();
        Ok(())
    }
}
