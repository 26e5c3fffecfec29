//! Signatures: HMAC-SHA-256 with a key that is used for nothing else. It stays what it is when the master key changes, sealed by it.

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use zeroize::Zeroizing;

use crate::master_key::MasterKey;

const LENGTH: usize = 32;

/// What signatures are made with.
pub struct SigningKey(Zeroizing<[u8; LENGTH]>);

impl SigningKey {
    /// The one that belongs to a store which has none yet: it follows from the first master key.
    pub fn first(master: &MasterKey) -> Self {
        let mut key = Zeroizing::new([0; LENGTH]);
        master.derive(b"signatures, version 1", &mut *key);
        Self(key)
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(Zeroizing::new(bytes.try_into().ok()?)))
    }

    /// To be sealed.
    pub fn bytes(&self) -> &[u8] {
        &*self.0
    }
}

pub struct Signer(hmac::Key);

impl Signer {
    pub fn new(key: &SigningKey) -> Self {
        Self(hmac::Key::new(HMAC_SHA256, key.bytes()))
    }

    /// What is signed must say what it is for: there is one key for all of it.
    pub fn sign(&self, content: &[u8]) -> [u8; LENGTH] {
        let mut signature = [0; LENGTH];
        signature.copy_from_slice(hmac::sign(&self.0, content).as_ref());
        signature
    }

    /// In a time that does not depend on what is wrong.
    pub fn is_signed(&self, content: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.0, content, signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_good_for_what_was_signed_with_the_same_key() {
        let signer = |byte| Signer::new(&SigningKey::first(&MasterKey([byte; 32])));
        let signature = signer(1).sign(b"content");
        assert!(signer(1).is_signed(b"content", &signature));
        assert!(!signer(2).is_signed(b"content", &signature));
        let signer = signer(1);
        assert!(
            !signer.is_signed(b"contend", &signature) && !signer.is_signed(b"content", &signature[..31]) && !signer.is_signed(b"", &[])
        );
        for at in 0..signature.len() {
            let mut changed = signature;
            changed[at] ^= 1;
            assert!(!signer.is_signed(b"content", &changed), "byte {at}");
        }
    }
}
