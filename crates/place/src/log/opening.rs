//! How a segment begins whose file may have been another segment before.
//!
//! Past the cap a file that is given up becomes the next segment: it is renamed and written over, which saves the kernel to free its pages and
//! find others. Old bytes then lie behind the new ones until those have come so far, and a program chose what they are. So each use of a file
//! has a key, which nobody inside knows and which is part of every checksum in it: neither what was there before nor what comes after passes
//! for a frame, however it was made up.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Part of the checksums of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u8; 8]);

impl Key {
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 8];
        // So few bytes come whole or not at all.
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(bytes))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The first bytes of such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Where in the stream the segment begins: a file that was renamed and not written to yet still says where it began before.
    pub begins: u64,
    pub key: Key,
}

pub const OPENING: usize = 24;
const MARK: [u8; 4] = *b"stk\x01";

impl Opening {
    pub fn to_bytes(self) -> [u8; OPENING] {
        let mut bytes = [0; OPENING];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..12].copy_from_slice(&self.begins.to_le_bytes());
        bytes[12..20].copy_from_slice(self.key.bytes());
        let sum = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; OPENING] = bytes.first_chunk()?;
        let sum = u32::from_le_bytes(bytes[20..].try_into().ok()?);
        (crc32fast::hash(&bytes[..20]) == sum)
            .then_some(Self { begins: u64::from_le_bytes(bytes[4..12].try_into().ok()?), key: Key(bytes[12..20].try_into().ok()?) })
    }
}

/// What a file is by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Never anything else: its frames begin at once.
    Plain,
    /// Its frames begin after the opening.
    Keyed(Key),
    /// Nothing is written of this segment yet.
    Another,
}

impl Identity {
    pub fn of(bytes: &[u8], begins: u64) -> Self {
        if bytes.len() < MARK.len() {
            return Self::Another;
        }
        if !bytes.starts_with(&MARK) {
            return Self::Plain;
        }
        match Opening::parse(bytes) {
            Some(opening) if opening.begins == begins => Self::Keyed(opening.key),
            _ => Self::Another,
        }
    }

    pub fn key(self) -> Option<Key> {
        match self {
            Self::Keyed(key) => Some(key),
            _ => None,
        }
    }

    /// Where in the file its frames begin.
    pub fn frames_at(self) -> usize {
        if matches!(self, Self::Keyed(_)) { OPENING } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_says_only_under_its_own_name_and_unharmed() {
        let opening = Opening { begins: 77, key: Key::random().unwrap() };
        let mut bytes = opening.to_bytes();
        assert_eq!(Identity::of(&bytes, 77), Identity::Keyed(opening.key));
        assert_eq!(Identity::of(&bytes, 78), Identity::Another);
        assert_eq!(Identity::of(&bytes[..OPENING - 1], 77), Identity::Another);
        assert_eq!(Identity::of(b"", 77), Identity::Another);
        assert_eq!(Identity::of(b"stl\x01 and so on", 77), Identity::Plain);
        bytes[13] ^= 1;
        assert_eq!(Identity::of(&bytes, 77), Identity::Another);
    }
}
