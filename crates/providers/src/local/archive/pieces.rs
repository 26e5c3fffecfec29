//! An archive as it arrives, for a thread that may wait.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stead_app::ArchivePieces;

pub struct Pieces {
    receiver: ArchivePieces,
    piece: Vec<u8>,
    at: usize,
    over: bool,
    /// Nobody waits for what comes of it any more.
    stopped: Arc<AtomicBool>,
}

impl Pieces {
    pub fn new(receiver: ArchivePieces, stopped: Arc<AtomicBool>) -> Self {
        Self { receiver, piece: Vec::new(), at: 0, over: false, stopped }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() && !self.over {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match self.receiver.blocking_recv() {
                Some(Some(piece)) => (self.piece, self.at) = (piece, 0),
                Some(None) => self.over = true,
                // The end is said: whoever only lets go was cut off.
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let length = buffer.len().min(self.piece.len() - self.at);
        buffer[..length].copy_from_slice(&self.piece[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}
