//! What is said to a steward: by the caller itself if there is room, because to wake somebody for it takes longer than to say it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

pub struct Outgoing {
    stream: OwnedWriteHalf,
    /// Whole messages, but for the first, of which a part may be said already: whoever goes away in the middle of one garbles nothing.
    unsent: Mutex<VecDeque<Vec<u8>>>,
    waiting: Notify,
    is_over: AtomicBool,
}

impl Outgoing {
    pub fn new(stream: OwnedWriteHalf) -> Self {
        Self { stream, unsent: Mutex::default(), waiting: Notify::new(), is_over: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says a message, or keeps it for [`Self::drain`]. In the order of the calls.
    pub fn say(&self, message: Vec<u8>) {
        let mut unsent = self.lock();
        unsent.push_back(message);
        // What is not the first waits for those before it. That the stream is broken is found out by whoever drains.
        if unsent.len() > 1 || self.write(&mut unsent).is_err() || !unsent.is_empty() {
            self.waiting.notify_one();
        }
    }

    /// Nothing more is said.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.waiting.notify_one();
    }

    /// Says what there was no room for, until the stream breaks or nothing more is said.
    pub async fn drain(&self) -> io::Result<()> {
        while !self.is_over.load(Ordering::Acquire) || !self.lock().is_empty() {
            self.waiting.notified().await;
            loop {
                self.write(&mut self.lock())?;
                if self.lock().is_empty() {
                    break;
                }
                self.stream.writable().await?;
            }
        }
        Ok(())
    }

    /// As much as there is room for.
    fn write(&self, unsent: &mut VecDeque<Vec<u8>>) -> io::Result<()> {
        while let Some(first) = unsent.front_mut() {
            match self.stream.try_write(first) {
                Ok(written) if written == first.len() => drop(unsent.pop_front()),
                Ok(written) => drop(first.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
