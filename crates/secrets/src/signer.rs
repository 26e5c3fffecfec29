//! Signatures: HMAC-SHA-256 with a key that is derived from the master key and used for nothing else.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::hmac::{self, HMAC_SHA256};

use crate::envelope::SealError;
use crate::master_key::MasterKey;

const LENGTH: usize = 32;

pub struct Signer(hmac::Key);

struct Bytes;

impl KeyType for Bytes {
    fn len(&self) -> usize {
        LENGTH
    }
}

impl Signer {
    pub fn new(master: &MasterKey) -> Result<Self, SealError> {
        let mut key = [0; LENGTH];
        let derived = Salt::new(HKDF_SHA256, b"stead").extract(&master.0);
        let derived = derived.expand(&[b"signatures, version 1"], Bytes).map_err(|_| SealError::Seal)?;
        derived.fill(&mut key).map_err(|_| SealError::Seal)?;
        Ok(Self(hmac::Key::new(HMAC_SHA256, &key)))
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
        let signer = Signer::new(&MasterKey([1; 32])).unwrap();
        let signature = signer.sign(b"content");
        assert!(signer.is_signed(b"content", &signature));
        assert!(Signer::new(&MasterKey([1; 32])).unwrap().is_signed(b"content", &signature));
        assert!(!Signer::new(&MasterKey([2; 32])).unwrap().is_signed(b"content", &signature));
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
