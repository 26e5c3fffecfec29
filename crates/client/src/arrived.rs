//! Frames out of the pieces in which they arrive. Output is not put together again: it is given on as it comes, without a copy.

use bytes::{Buf, Bytes, BytesMut};
use stead_domain::frames::{FrameHead, FrameKind, HEAD};

/// What is not output is short.
const LONGEST: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// What came last, and is not looked at yet.
    fresh: Bytes,
    /// The beginning of a head, or of a short frame, whose end has not come.
    begun: BytesMut,
    /// The rest of a frame whose head was read.
    head: Option<FrameHead>,
}

impl Arrived {
    /// To be called when everything was taken.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.fresh = bytes;
    }

    /// A frame, or the part of one that is output.
    pub(crate) fn take(&mut self) -> Option<(FrameHead, Bytes)> {
        let head = match self.head {
            Some(head) => head,
            None => {
                let head = FrameHead::from_bytes(self.gather(HEAD)?.as_ref().try_into().ok()?);
                *self.head.insert(head)
            }
        };
        let length = head.length as usize;
        if !matches!(head.kind, Some(FrameKind::Output(_))) {
            if length > LONGEST {
                return None;
            }
            let whole = self.gather(length)?;
            self.head = None;
            return Some((head, whole));
        }
        if length > 0 && self.fresh.is_empty() {
            return None;
        }
        let part = self.fresh.split_to(length.min(self.fresh.len()));
        let rest = length - part.len();
        self.head = (rest > 0).then(|| FrameHead { length: rest as u32, offset: head.offset + part.len() as u64, ..head });
        Some((head, part))
    }

    /// Whether a frame is longer than any that we know.
    pub(crate) fn is_endless(&self) -> bool {
        self.head.is_some_and(|head| !matches!(head.kind, Some(FrameKind::Output(_))) && head.length as usize > LONGEST)
    }

    /// So many bytes, once they are there.
    fn gather(&mut self, length: usize) -> Option<Bytes> {
        let missing = (length - self.begun.len()).min(self.fresh.len());
        self.begun.extend_from_slice(&self.fresh[..missing]);
        self.fresh.advance(missing);
        (self.begun.len() == length).then(|| self.begun.split().freeze())
    }
}

#[cfg(test)]
mod tests {
    use stead_domain::process::OutputStream;

    use super::*;

    #[test]
    fn frames_come_out_of_any_pieces() {
        let stdout = FrameKind::Output(OutputStream::Stdout);
        let mut wire = Vec::new();
        for (kind, offset, bytes) in
            [(stdout, 5, &b"hello"[..]), (FrameKind::Alive, 10, b""), (FrameKind::Gap, 10, b"12345678"), (stdout, 20, b"there")]
        {
            wire.extend(FrameHead::new(kind, offset, bytes.len()).to_bytes());
            wire.extend(bytes);
        }
        // One that only a later version knows.
        let mut unknown = FrameHead::new(FrameKind::Exit, 25, 3).to_bytes();
        unknown[0] = 99;
        wire.extend(unknown);
        wire.extend(b"new");
        for size in 1..=wire.len() {
            let (mut arrived, mut output, mut others) = (Arrived::default(), Vec::new(), Vec::new());
            for piece in wire.chunks(size) {
                arrived.push(Bytes::copy_from_slice(piece));
                while let Some((head, bytes)) = arrived.take() {
                    match head.kind {
                        Some(FrameKind::Output(_)) => {
                            output.extend(bytes.iter().enumerate().map(|(at, byte)| (head.offset + at as u64, *byte)));
                        }
                        kind => others.push((kind, head.offset, bytes.to_vec())),
                    }
                }
            }
            let expected: Vec<(u64, u8)> = (5..10).zip(*b"hello").chain((20..25).zip(*b"there")).collect();
            assert_eq!(output, expected, "in pieces of {size}");
            let expected =
                [(Some(FrameKind::Alive), 10, b"".to_vec()), (Some(FrameKind::Gap), 10, b"12345678".to_vec()), (None, 25, b"new".to_vec())];
            assert_eq!(others, expected);
        }
    }

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let mut arrived = Arrived::default();
        arrived.push(Bytes::copy_from_slice(&FrameHead::new(FrameKind::Exit, 0, 1 << 30).to_bytes()));
        assert!(arrived.take().is_none() && arrived.is_endless());
    }
}
