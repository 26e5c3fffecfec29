//! Bytes on their way: bounded, counted, and only read when there is room.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::reason::Reason;
use crate::sniff::Protocol;

/// Any two-way stream of bytes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

const CHUNK: usize = 16 * 1024;

/// Why a direction ended early.
#[derive(Debug)]
pub enum Interrupted {
    Broken,
    Refused(Reason),
    /// Nothing was wrong with it; the reason is how the connection ended.
    Ended(Reason),
}

impl From<io::Error> for Interrupted {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<Reason> for Interrupted {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

/// What is known of a connection while it runs.
#[derive(Debug, Default)]
pub struct Meter {
    /// As the journal counts.
    pub connection: u64,
    pub up: AtomicU64,
    pub down: AtomicU64,
    /// What was heard on the way, if it was not known before.
    pub protocol: OnceLock<Protocol>,
}

/// A reader with what was read ahead of it.
pub struct Inbound<R> {
    pub reader: R,
    pub buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Inbound<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: BytesMut::new() }
    }

    /// Reads some more; false at the end. Nothing is lost when it is cancelled.
    pub async fn fill(&mut self) -> io::Result<bool> {
        self.buffer.reserve(CHUNK);
        Ok(self.reader.read_buf(&mut self.buffer).await? > 0)
    }
}

/// A writer that counts.
pub struct Outbound<'counter, W> {
    pub writer: W,
    pub counter: &'counter AtomicU64,
}

impl<W: AsyncWrite + Unpin> Outbound<'_, W> {
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await?;
        self.counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// To the end of the reader, which is passed on as the end of the writer; the other direction goes on.
pub async fn pump<R, W>(inbound: &mut Inbound<R>, outbound: &mut Outbound<'_, W>) -> Result<(), Interrupted>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        if !inbound.buffer.is_empty() {
            outbound.write(&inbound.buffer).await?;
            inbound.buffer.clear();
        }
        if !inbound.fill().await? {
            outbound.writer.shutdown().await?;
            return Ok(());
        }
    }
}

/// Exactly so many bytes.
pub async fn pass<R, W>(inbound: &mut Inbound<R>, outbound: &mut Outbound<'_, W>, mut length: u64) -> Result<(), Interrupted>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    while length > 0 {
        if inbound.buffer.is_empty() && !inbound.fill().await? {
            return Err(Interrupted::Broken);
        }
        let part = usize::try_from(length).unwrap_or(usize::MAX).min(inbound.buffer.len());
        outbound.write(&inbound.buffer[..part]).await?;
        inbound.buffer.advance(part);
        length -= part as u64;
    }
    Ok(())
}
