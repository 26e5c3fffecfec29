//! The keys that seal everything else: 256 random bits each. One is used, those before it only open what they sealed.

use std::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use stead_domain::Context;
use zeroize::Zeroize;

const LENGTH: usize = 32;

#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey(pub(crate) [u8; LENGTH]);

/// Which key it is, without a hint of what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub(crate) [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// How many bytes are to be derived.
pub(crate) struct Bytes(pub usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

impl MasterKey {
    pub fn generate(context: &Context) -> Self {
        Self(context.random())
    }

    /// Of 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != LENGTH * 2 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0; LENGTH];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let pair = text.get(at * 2..at * 2 + 2)?;
            if !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// As [`MasterKey::parse`] takes it.
    pub(crate) fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn id(&self) -> KeyId {
        let mut id = [0; 8];
        self.derive(b"which key it is, version 1", &mut id);
        KeyId(id)
    }

    /// Something of its own for one purpose, from which the key does not follow.
    pub(crate) fn derive(&self, purpose: &[u8], out: &mut [u8]) {
        let derived = Salt::new(HKDF_SHA256, b"stead").extract(&self.0);
        // Only more than 255 hashes would fail, and nobody asks for that.
        if let Ok(derived) = derived.expand(&[purpose], Bytes(out.len())) {
            let _ = derived.fill(out);
        }
    }
}

impl Drop for MasterKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MasterKey {}", self.id())
    }
}

/// The key that seals, and those before it that may still be needed to open something.
#[derive(Clone, Debug)]
pub struct Keyring {
    pub active: MasterKey,
    pub older: Vec<MasterKey>,
}

impl Keyring {
    pub fn of(active: MasterKey) -> Self {
        Self { active, older: Vec::new() }
    }

    pub fn find(&self, id: KeyId) -> Option<&MasterKey> {
        std::iter::once(&self.active).chain(&self.older).find(|key| key.id() == id)
    }

    /// By an id as it is written.
    pub fn holds(&self, id: &str) -> bool {
        std::iter::once(&self.active).chain(&self.older).any(|key| key.id().to_string() == id)
    }

    /// With those of another one behind its own.
    pub(crate) fn joined(mut self, others: &Self) -> Self {
        for key in std::iter::once(&others.active).chain(&others.older) {
            if self.find(key.id()).is_none() {
                self.older.push(key.clone());
            }
        }
        self
    }

    /// The same keys, of which the one with this id seals.
    pub fn sealing_with(&self, id: &str) -> Option<Self> {
        let mut keys: Vec<MasterKey> = std::iter::once(&self.active).chain(&self.older).cloned().collect();
        let at = keys.iter().position(|key| key.id().to_string() == id)?;
        let active = keys.remove(at);
        Some(Self { active, older: keys })
    }

    /// Keys of 64 digits each, apart by white space or commas, the one that seals first.
    pub fn parse(text: &str) -> Option<Self> {
        let words = text.split(|letter: char| letter.is_whitespace() || letter == ',').filter(|word| !word.is_empty());
        let mut keys = words.map(MasterKey::parse).collect::<Option<Vec<_>>>()?;
        if keys.is_empty() {
            return None;
        }
        let active = keys.remove(0);
        Some(Self { active, older: keys })
    }

    pub(crate) fn to_text(&self) -> String {
        std::iter::once(&self.active).chain(&self.older).map(|key| key.to_text() + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let context = stead_testing::context(1).0;
        let ring = Keyring { active: MasterKey::generate(&context), older: vec![MasterKey::generate(&context)] };
        let again = Keyring::parse(&ring.to_text()).unwrap();
        assert_eq!((&again.active, &again.older), (&ring.active, &ring.older));
        assert!(ring.holds(&ring.older[0].id().to_string()) && !ring.holds("0011223344556677"));
        for bad in ["", "short", &"g".repeat(64), &"+1".repeat(32), &format!("{} x", "0".repeat(64))] {
            assert!(Keyring::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_id_and_what_is_shown_tell_nothing_of_the_key() {
        let key = MasterKey([7; 32]);
        let shown = format!("{key:?} {}", key.id());
        assert!(!shown.contains("0707"), "{shown}");
        assert_ne!(key.id(), MasterKey([8; 32]).id());
    }
}
