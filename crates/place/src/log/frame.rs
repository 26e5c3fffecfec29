//! One frame: where it belongs, when it came, and its bytes, with a checksum that tells a whole one from a torn one.

use stead_domain::Timestamp;
use stead_domain::process::OutputStream;

use super::opening::Key;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Output(OutputStream),
    /// How the process ended, as JSON. It takes no room in the stream.
    Exit,
    /// Every writer of the output is gone. Empty.
    Closed,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Output(OutputStream::Stdout) => 1,
            Self::Output(OutputStream::Stderr) => 2,
            Self::Exit => 3,
            Self::Closed => 4,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Output(OutputStream::Stdout)),
            2 => Some(Self::Output(OutputStream::Stderr)),
            3 => Some(Self::Exit),
            4 => Some(Self::Closed),
            _ => None,
        }
    }
}

/// What stands before the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub length: u32,
    /// Of the first byte, in the stream.
    pub offset: u64,
    pub at: Timestamp,
    checksum: u32,
}

pub const HEADER: usize = 28;
const MARK: [u8; 3] = *b"stl";

impl Header {
    pub fn new(key: Option<Key>, kind: Kind, offset: u64, at: Timestamp, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut header = Self { kind, length, offset, at, checksum: 0 };
        header.checksum = header.sum(key, bytes);
        header
    }

    fn fields(&self) -> [u8; HEADER - 4] {
        let mut fields = [0; HEADER - 4];
        fields[..3].copy_from_slice(&MARK);
        fields[3] = self.kind.number();
        fields[4..8].copy_from_slice(&self.length.to_le_bytes());
        fields[8..16].copy_from_slice(&self.offset.to_le_bytes());
        fields[16..].copy_from_slice(&self.at.microseconds().to_le_bytes());
        fields
    }

    fn sum(&self, key: Option<Key>, bytes: &[u8]) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        key.iter().for_each(|key| sum.update(key.bytes()));
        sum.update(&self.fields());
        sum.update(bytes);
        sum.finalize()
    }

    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..HEADER - 4].copy_from_slice(&self.fields());
        bytes[HEADER - 4..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// How much of the stream it covers.
    pub fn covers(&self) -> u64 {
        if matches!(self.kind, Kind::Output(_)) { u64::from(self.length) } else { 0 }
    }

    /// How long what follows the header says that it is.
    pub fn length_of(bytes: &[u8]) -> Option<usize> {
        let fields = bytes.get(..8)?;
        (fields[..3] == MARK).then(|| fields[4..].iter().rev().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))
    }

    /// The frame at the beginning of `bytes`, if it is whole, unharmed and of the segment with this key.
    pub fn parse(key: Option<Key>, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let fields = bytes.get(..HEADER)?;
        if fields[..3] != MARK {
            return None;
        }
        let header = Self {
            kind: Kind::from_number(fields[3])?,
            length: u32::from_le_bytes(fields[4..8].try_into().ok()?),
            offset: u64::from_le_bytes(fields[8..16].try_into().ok()?),
            at: Timestamp::from_microseconds(i64::from_le_bytes(fields[16..24].try_into().ok()?)),
            checksum: u32::from_le_bytes(fields[24..].try_into().ok()?),
        };
        let payload = bytes.get(HEADER..HEADER.checked_add(header.length as usize)?)?;
        (header.sum(key, payload) == header.checksum).then_some((header, payload))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_frame_comes_back_and_a_harmed_one_does_not(
            kind in prop::sample::select(vec![Kind::Output(OutputStream::Stdout), Kind::Output(OutputStream::Stderr), Kind::Exit, Kind::Closed]),
            offset: u64,
            microseconds in 0..1i64 << 55,
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            harm: prop::sample::Index,
            bit in 0..8,
        ) {
            for key in [None, Some(Key::random().unwrap())] {
            let header = Header::new(key, kind, offset, Timestamp::from_microseconds(microseconds), &bytes);
            let mut whole = header.to_bytes().to_vec();
            whole.extend(&bytes);
            prop_assert_eq!(Header::parse(key, &whole), Some((header, bytes.as_slice())));
            prop_assert_eq!(Header::parse(Some(Key::random().unwrap()), &whole), None);
            prop_assert_eq!(Header::parse(key, &whole[..whole.len() - 1]), None);
            let at = harm.index(whole.len());
            whole[at] ^= 1u8 << bit;
            prop_assert_eq!(Header::parse(key, &whole), None);
            }
        }
    }
}
