//! Bodies of requests: what is at hand, or what is read from somewhere while it is sent.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};

/// What is read at once.
const PIECE: usize = 128 << 10;

/// Bytes that are sent as they are read, however many there are.
pub struct Upload {
    reader: Pin<Box<dyn AsyncRead + Send>>,
    /// What is still to come, where that was promised.
    left: Option<u64>,
    buffer: BytesMut,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Upload {
    /// With a length, exactly that many are sent: of a source that grows no more, and one that ends too early fails.
    pub fn new(reader: impl AsyncRead + Send + 'static, length: Option<u64>) -> Self {
        Self { reader: Box::pin(reader), left: length, buffer: BytesMut::new(), failure: Arc::default() }
    }

    /// Where it is found later why the source could not be read.
    pub(crate) fn failure(&self) -> Arc<Mutex<Option<io::Error>>> {
        self.failure.clone()
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let most = self.left.map_or(PIECE, |left| usize::try_from(left).unwrap_or(PIECE).min(PIECE));
        if most == 0 {
            return Poll::Ready(None);
        }
        self.buffer.resize(most, 0);
        let mut piece = ReadBuf::new(&mut self.buffer);
        match self.reader.as_mut().poll_read(context, &mut piece) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(())) => {}
        }
        let length = piece.filled().len();
        if length == 0 {
            return Poll::Ready(
                self.left.map(|_| Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was sent"))),
            );
        }
        self.left = self.left.map(|left| left - length as u64);
        Poll::Ready(Some(Ok(self.buffer.split_to(length).freeze())))
    }
}

/// The body of any request.
pub(crate) enum Outgoing {
    Whole(Full<Bytes>),
    Read(Upload),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(context).map_err(|never| match never {}),
            Self::Read(upload) => upload.read(context).map(|read| {
                read.map(|read| {
                    read.map(Frame::data).map_err(|error| {
                        let told = io::Error::new(error.kind(), error.to_string());
                        *upload.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        told
                    })
                })
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Read(upload) => upload.left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Read(upload) => upload.left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
