//! Output as frames of bytes, for who follows much of it.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use futures::stream;
use stead_app::processes::{OutputReader, Piece};
use stead_app::{Frame, Output};
use stead_domain::frames::{FrameHead, FrameKind};
use stead_domain::{Error, Result};
use tokio_util::sync::CancellationToken;

use super::logs::{PIECE, SIGN_OF_LIFE};

/// The bytes of a stream of frames, as they come. Nothing is read before what was read is sent.
pub fn body(reader: OutputReader, stopping: CancellationToken) -> Body {
    let sending = Sending { reader, stopping, waiting: VecDeque::new(), over: false };
    Body::from_stream(stream::unfold(sending, |mut sending| async move {
        while sending.waiting.is_empty() {
            sending.read_on().await?;
        }
        sending.waiting.pop_front().map(|bytes| (Ok::<_, Infallible>(bytes), sending))
    }))
}

struct Sending {
    reader: OutputReader,
    stopping: CancellationToken,
    waiting: VecDeque<Bytes>,
    over: bool,
}

impl Sending {
    /// None when nothing more comes.
    async fn read_on(&mut self) -> Option<()> {
        if self.over {
            return None;
        }
        let piece = tokio::select! {
            () = self.stopping.cancelled() => return None,
            piece = tokio::time::timeout(SIGN_OF_LIFE, self.reader.next(PIECE)) => piece,
        };
        let offset = self.reader.offset();
        let added = match piece {
            Err(_) => {
                self.add(FrameKind::Alive, offset, Bytes::new());
                Ok(())
            }
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(piece))) => self.add_piece(piece, offset),
            Ok(Err(error)) => Err(error),
        };
        if let Err(error) = added {
            tracing::warn!(%error, cause = error.internal_cause(), "output could not be read");
            self.add(FrameKind::Error, offset, serde_json::to_vec(&error.body(None)).unwrap_or_default().into());
            self.over = true;
        }
        Some(())
    }

    fn add_piece(&mut self, piece: Piece, offset: u64) -> Result<()> {
        match piece {
            Piece::Output(Output { frames, .. }) => {
                for frame in frames {
                    match frame {
                        Frame::Bytes { stream, offset, bytes, .. } => self.add(FrameKind::Output(stream), offset, bytes.into()),
                        Frame::Gap { from, to } => self.add(FrameKind::Gap, from, to.to_le_bytes().to_vec().into()),
                    }
                }
            }
            Piece::Exit(exit) => self.add(FrameKind::Exit, offset, serde_json::to_vec(&exit).map_err(Error::internal)?.into()),
            Piece::Failed(error) => self.add(FrameKind::Failed, offset, error.into()),
        }
        Ok(())
    }

    /// The bytes go as they are, behind a head of their own: large ones are not copied.
    fn add(&mut self, kind: FrameKind, offset: u64, bytes: Bytes) {
        self.waiting.push_back(Bytes::copy_from_slice(&FrameHead::new(kind, offset, bytes.len()).to_bytes()));
        if !bytes.is_empty() {
            self.waiting.push_back(bytes);
        }
    }
}
