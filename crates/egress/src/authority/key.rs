//! The authority's own key: P-256, from a seed.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rcgen::{PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey};
use zeroize::Zeroizing;

use super::AuthorityError;
use crate::broker::Seed;

pub struct AuthorityKey {
    pair: EcdsaKeyPair,
    public: Vec<u8>,
    serial: [u8; 16],
}

impl AuthorityKey {
    pub fn derive(seed: &Seed, environment: &str) -> Result<Self, AuthorityError> {
        let derived = |purpose: &str, count: u8| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, seed.bytes());
            let mut context = hmac::Context::with_key(&key);
            // No environment's id has a line break.
            context.update(format!("{purpose}\n{environment}\n").as_bytes());
            context.update(&[count]);
            let mut bytes = Zeroizing::new([0; 32]);
            bytes.copy_from_slice(context.sign().as_ref());
            bytes
        };
        // Almost every number of 32 bytes is a key; the few that are not give way to the next.
        let found = (0..=u8::MAX).find_map(|count| {
            let scalar = derived("authority key", count);
            let public = PrivateKey::from_private_key(&ECDH_P256, &scalar[..]).ok()?.compute_public_key().ok()?;
            Some((scalar, public.as_ref().to_vec()))
        });
        let (scalar, public) = found.ok_or(AuthorityError("its key cannot be derived"))?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(&ECDSA_P256_SHA256_ASN1_SIGNING, &scalar[..], &public)
            .map_err(|_| AuthorityError("its key cannot be used"))?;
        let mut serial = [0; 16];
        serial.copy_from_slice(&derived("authority serial", 0)[..16]);
        // A positive number of always the same length.
        serial[0] = serial[0] & 0x7f | 0x40;
        Ok(Self { pair, public, serial })
    }

    pub fn serial(&self) -> [u8; 16] {
        self.serial
    }
}

impl PublicKeyData for AuthorityKey {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for AuthorityKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signature = self.pair.sign(&SystemRandom::new(), message).map_err(|_| rcgen::Error::RemoteKeyError)?;
        Ok(signature.as_ref().to_vec())
    }
}
