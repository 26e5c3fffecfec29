//! Output as bytes, with a head of sixteen before each piece: what `application/vnd.stead.frames` carries. Text would cost more than the pipe
//! that it stands for.

use crate::process::OutputStream;

pub const MEDIA_TYPE: &str = "application/vnd.stead.frames";

/// A head is so long.
pub const HEAD: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Nothing; the connection is alive.
    Alive,
    /// Bytes of a stream, the first of them at the offset.
    Output(OutputStream),
    /// Bytes that are no longer kept, from the offset to the one that follows in eight bytes.
    Gap,
    /// How the process ended, as JSON.
    Exit,
    /// Why there was never a program, as text.
    Failed,
    /// Why nothing more comes, as the JSON of an error.
    Error,
}

/// What a later version may send and this one passes over has no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    pub kind: Option<FrameKind>,
    /// Of what follows the head.
    pub length: u32,
    pub offset: u64,
}

/// All kinds by their numbers.
const KINDS: [FrameKind; 7] = [
    FrameKind::Alive,
    FrameKind::Output(OutputStream::Stdout),
    FrameKind::Output(OutputStream::Stderr),
    FrameKind::Gap,
    FrameKind::Exit,
    FrameKind::Failed,
    FrameKind::Error,
];

impl FrameHead {
    pub fn new(kind: FrameKind, offset: u64, length: usize) -> Self {
        Self { kind: Some(kind), length: u32::try_from(length).unwrap_or(u32::MAX), offset }
    }

    /// The kind, three bytes that are zero, length and offset; numbers begin with their lowest byte.
    pub fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let number = self.kind.and_then(|kind| KINDS.iter().position(|known| *known == kind)).unwrap_or(0xff);
        bytes[0] = number as u8;
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; HEAD]) -> Self {
        let number = |range: std::ops::Range<usize>| bytes[range].iter().rev().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
        Self { kind: KINDS.get(usize::from(bytes[0])).copied(), length: number(4..8) as u32, offset: number(8..HEAD) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back() {
        for kind in KINDS {
            let head = FrameHead::new(kind, 0x0102_0304_0506_0708, 0x0a0b_0c0d);
            assert_eq!(FrameHead::from_bytes(head.to_bytes()), head);
        }
        let stderr = FrameHead::new(FrameKind::Output(OutputStream::Stderr), 256, 3).to_bytes();
        assert_eq!(stderr, [2, 0, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(FrameHead::from_bytes([200; HEAD]).kind, None);
    }
}
