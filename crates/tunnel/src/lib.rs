//! Two connections joined into one: what comes in at either end goes out at the other, and so does its end.
//!
//! Between plain sockets the bytes never enter this process: they are moved from one to the other through a pipe in the kernel. Whatever
//! else is joined, such as TLS, is copied. Neither takes more memory the more is sent.

mod alive;
mod splice;

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpStream, UnixStream};

/// What is copied at once.
const PIECE: usize = 256 << 10;

/// Any two-way stream of bytes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// One end of a tunnel.
pub enum End {
    Tcp(TcpStream),
    Unix(UnixStream),
    Other(Box<dyn Stream>),
}

impl From<TcpStream> for End {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<UnixStream> for End {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

/// Passes bytes on in both directions until both have ended, or one broke. Beside each end is what was read of it already.
pub async fn join((mut left, from_left): (End, Bytes), (mut right, from_right): (End, Bytes)) -> io::Result<()> {
    // Little enough to fit into any socket: neither waits for the other.
    for (early, end) in [(from_left, &mut right), (from_right, &mut left)] {
        if !early.is_empty() {
            end.stream().write_all(&early).await?;
        }
    }
    if let (Some(left), Some(right)) = (left.plain(), right.plain()) {
        return splice::both(&left, &right).await;
    }
    copy_bidirectional_with_sizes(left.stream(), right.stream(), PIECE, PIECE).await.map(drop)
}

impl End {
    fn stream(&mut self) -> &mut dyn Stream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
            Self::Other(stream) => stream,
        }
    }

    fn plain(&self) -> Option<splice::Plain<'_>> {
        match self {
            Self::Tcp(stream) => Some(splice::Plain::Tcp(stream)),
            Self::Unix(stream) => Some(splice::Plain::Unix(stream)),
            Self::Other(_) => None,
        }
    }
}
