//! Output on our own descriptors, by a thread: whoever reads it slowly must not hold up signals.

use std::future;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use stead_domain::process::OutputStream;
use tokio::sync::mpsc::{self, Permit, Receiver, Sender};

type Piece = (OutputStream, Bytes);

pub struct Output {
    sender: Sender<Piece>,
}

/// Streams that nobody reads any more; ends when everything is written.
pub struct Unread(mpsc::UnboundedReceiver<OutputStream>);

impl Output {
    pub fn open() -> io::Result<(Self, Unread)> {
        let (sender, pieces) = mpsc::channel(4);
        let (telling, unread) = mpsc::unbounded_channel();
        thread::Builder::new().name("output".to_owned()).spawn(move || write(pieces, &telling))?;
        Ok((Self { sender }, Unread(unread)))
    }

    /// Waits until there is room for another piece.
    pub async fn room(&self) -> Option<Permit<'_, Piece>> {
        self.sender.reserve().await.ok()
    }

    /// Waits until everything is written.
    pub async fn finish(self, mut unread: Unread) {
        drop(self.sender);
        while unread.0.recv().await.is_some() {}
    }
}

impl Unread {
    /// Waits until a stream turns out to have no reader.
    pub async fn next(&mut self) -> OutputStream {
        match self.0.recv().await {
            Some(stream) => stream,
            None => future::pending().await,
        }
    }
}

fn write(mut pieces: Receiver<Piece>, telling: &mpsc::UnboundedSender<OutputStream>) {
    let (stdout, stderr) = (rustix::stdio::stdout(), rustix::stdio::stderr());
    let mut unread = Vec::new();
    while let Some((stream, bytes)) = pieces.blocking_recv() {
        let descriptor = match stream {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
        };
        if !unread.contains(&stream) && write_whole(descriptor, &bytes).is_err() {
            unread.push(stream);
            let _ = telling.send(stream);
        }
    }
}

fn write_whole(descriptor: BorrowedFd<'_>, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(descriptor, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            // Somebody who shares the terminal has made it so.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)], None)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
