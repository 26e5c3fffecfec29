//! Sealed envelopes: AES-256-GCM with a data key of its own for each, which the master key wraps. What the value belongs to is bound in.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use stead_domain::Context;

use crate::master_key::MasterKey;

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the value could not be sealed")]
    Seal,
    #[error("the value cannot be opened: the master key is another one, or the value was changed or moved")]
    Open,
}

/// Seals and opens values.
pub struct Envelope {
    master: MasterKey,
    context: Context,
}

const DATA_KEY: usize = 32;
const TAG: usize = 16;
const WRAPPED: usize = NONCE_LEN + DATA_KEY + TAG;

impl Envelope {
    pub fn new(master: MasterKey, context: Context) -> Self {
        Self { master, context }
    }

    /// The value, unreadable without the master key; `belongs_to` must be the same when it is opened.
    pub fn seal(&self, belongs_to: &[u8], value: &[u8]) -> Result<Vec<u8>, SealError> {
        let data_key: [u8; DATA_KEY] = self.context.random();
        let mut sealed = encrypt(&self.master.0, belongs_to, &data_key)?;
        sealed.extend(encrypt(&data_key, belongs_to, value)?);
        Ok(sealed)
    }

    pub fn open(&self, belongs_to: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        if sealed.len() < WRAPPED {
            return Err(SealError::Open);
        }
        let (wrapped, rest) = sealed.split_at(WRAPPED);
        let data_key = decrypt(&self.master.0, belongs_to, wrapped)?;
        decrypt(&data_key, belongs_to, rest)
    }
}

fn encrypt(key: &[u8], belongs_to: &[u8], value: &[u8]) -> Result<Vec<u8>, SealError> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key).map_err(|_| SealError::Seal)?;
    let mut buffer = value.to_vec();
    let nonce = key.seal_in_place_append_tag(Aad::from(belongs_to), &mut buffer).map_err(|_| SealError::Seal)?;
    let mut sealed = nonce.as_ref().to_vec();
    sealed.append(&mut buffer);
    Ok(sealed)
}

fn decrypt(key: &[u8], belongs_to: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key).map_err(|_| SealError::Open)?;
    let (nonce, rest) = sealed.split_at_checked(NONCE_LEN).ok_or(SealError::Open)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Open)?;
    let mut buffer = rest.to_vec();
    let value = key.open_in_place(nonce, Aad::from(belongs_to), &mut buffer).map_err(|_| SealError::Open)?;
    Ok(value.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_only_where_it_belongs() {
        let (context, _) = stead_testing::context(3);
        let envelope = Envelope::new(MasterKey([1; 32]), context.clone());
        let sealed = envelope.seal(b"project/key", b"stk_value").unwrap();
        assert!(!sealed.windows(4).any(|window| window == b"stk_"));
        assert_eq!(envelope.open(b"project/key", &sealed).unwrap(), b"stk_value");
        assert!(envelope.open(b"project/other", &sealed).is_err());
        assert!(Envelope::new(MasterKey([2; 32]), context).open(b"project/key", &sealed).is_err());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(envelope.open(b"project/key", &changed).is_err(), "byte {at}");
            assert!(envelope.open(b"project/key", &sealed[..at]).is_err(), "cut at {at}");
        }
    }
}
