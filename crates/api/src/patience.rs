//! A connection that is cut off when the other side stops taking what it asked for, or never asks.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a write may be stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// How HTTP/2 begins. Until it is clear whether this comes, no timer of the protocols runs.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub struct Patient<T> {
    inner: T,
    deadline: Option<Pin<Box<Sleep>>>,
    opening: Option<Opening>,
}

/// The first bytes of a connection, which decide its protocol.
struct Opening {
    deadline: Pin<Box<Sleep>>,
    /// How much of the preface has come.
    seen: usize,
}

impl<T> Patient<T> {
    /// `limit` is how long the other side may take to begin.
    pub fn new(inner: T, limit: Duration) -> Self {
        Self { inner, deadline: None, opening: Some(Opening { deadline: Box::pin(sleep(limit)), seen: 0 }) }
    }

    /// Without the patience, for what may rest.
    pub fn into_inner(self) -> T {
        self.inner
    }

    /// Passes progress on; counts the time while there is none.
    fn judge<R>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.deadline = None;
            return outcome;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(deadline.as_mut().poll(context));
        deadline.as_mut().reset(Instant::now() + PATIENCE);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other side takes nothing any more")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(context, buffer);
        let Some(opening) = &mut self.opening else { return outcome };
        if outcome.is_pending() {
            ready!(opening.deadline.as_mut().poll(context));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other side did not begin a request")));
        }
        let new = &buffer.filled()[before..];
        let decided = new.is_empty() || !PREFACE[opening.seen..].starts_with(new);
        opening.seen += new.len();
        if decided || opening.seen == PREFACE.len() {
            self.opening = None;
        }
        outcome
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(context);
        self.judge(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(context, outcome)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
