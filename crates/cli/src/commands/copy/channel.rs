//! From whoever has bytes to whoever reads them, without more of them in between than a few pieces.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use indicatif::ProgressBar;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::{Receiver, Sender, channel as pieces};

const PIECES: usize = 8;

/// The end is a piece of its own: one that is only let go of was cut off.
pub type Piece = io::Result<Option<Vec<u8>>>;

pub fn channel(bar: &ProgressBar) -> (Sender<Piece>, Pieces) {
    let (sender, receiver) = pieces(PIECES);
    (sender, Pieces { receiver, piece: Vec::new(), at: 0, over: false, bar: bar.clone() })
}

/// The reading end.
pub struct Pieces {
    receiver: Receiver<Piece>,
    piece: Vec<u8>,
    at: usize,
    over: bool,
    bar: ProgressBar,
}

impl Pieces {
    /// For a thread that may wait.
    pub fn wait(&mut self) -> Piece {
        let piece = self.receiver.blocking_recv().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
        self.bar.inc(piece.as_ref().map_or(0, |piece| piece.len() as u64));
        Ok(piece)
    }
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.at == self.piece.len() && !self.over {
            match ready!(self.receiver.poll_recv(context)).unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))? {
                Some(piece) => (self.piece, self.at) = (piece, 0),
                None => self.over = true,
            }
        }
        let length = buffer.remaining().min(self.piece.len() - self.at);
        buffer.put_slice(&self.piece[self.at..self.at + length]);
        self.at += length;
        self.bar.inc(length as u64);
        Poll::Ready(Ok(()))
    }
}

/// A reader whose progress is seen.
pub struct Counted<R> {
    pub reader: R,
    pub bar: ProgressBar,
}

impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        self.bar.inc((buffer.filled().len() - before) as u64);
        Poll::Ready(Ok(()))
    }
}
