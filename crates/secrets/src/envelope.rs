//! Sealed envelopes: AES-256-GCM with a data key of its own for each, which a master key wraps. What the value belongs to is bound in.
//!
//! One begins with a byte that says how it is made and with the id of the master key, so that another one can take over.

use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use stead_domain::Context;
use zeroize::{Zeroize, Zeroizing};

use crate::master_key::{KeyId, Keyring, MasterKey};

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("the value could not be sealed")]
    Seal,
    #[error("the value cannot be opened: it was changed or moved")]
    Open,
    #[error("the value was sealed with the master key {0}, which is not here")]
    OtherKey(KeyId),
}

/// Seals and opens values.
pub struct Envelope {
    ring: RwLock<Arc<Keyring>>,
    context: Context,
}

const FORM: u8 = 1;
const HEAD: usize = 1 + 8;
const DATA_KEY: usize = 32;
const TAG: usize = 16;
const WRAPPED: usize = NONCE_LEN + DATA_KEY + TAG;

impl Envelope {
    pub fn new(ring: Keyring, context: Context) -> Self {
        Self { ring: RwLock::new(Arc::new(ring)), context }
    }

    pub fn ring(&self) -> Arc<Keyring> {
        Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on values are sealed with the first of these.
    pub fn set_ring(&self, ring: Keyring) {
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
    }

    /// The value, unreadable without the master key; `belongs_to` must be the same when it is opened.
    pub fn seal(&self, belongs_to: &[u8], value: &[u8]) -> Result<Vec<u8>, SealError> {
        let data_key: Zeroizing<[u8; DATA_KEY]> = Zeroizing::new(self.context.random());
        let mut sealed = wrap(&self.ring().active, belongs_to, &*data_key)?;
        sealed.extend(encrypt(&*data_key, belongs_to, value)?);
        Ok(sealed)
    }

    pub fn open(&self, belongs_to: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (data_key, rest) = self.unwrap(belongs_to, sealed)?;
        decrypt(&data_key, belongs_to, rest)
    }

    /// The same value, wrapped by the key that seals now. The value itself is not looked at.
    pub fn rewrap(&self, belongs_to: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (data_key, rest) = self.unwrap(belongs_to, sealed)?;
        let mut again = wrap(&self.ring().active, belongs_to, &data_key)?;
        again.extend(rest);
        Ok(again)
    }

    fn unwrap<'sealed>(&self, belongs_to: &[u8], sealed: &'sealed [u8]) -> Result<(Zeroizing<Vec<u8>>, &'sealed [u8]), SealError> {
        if sealed.len() < HEAD + WRAPPED || sealed[0] != FORM {
            return Err(SealError::Open);
        }
        let (head, rest) = sealed.split_at(HEAD);
        let id = KeyId(head[1..].try_into().map_err(|_| SealError::Open)?);
        let ring = self.ring();
        let key = ring.find(id).ok_or(SealError::OtherKey(id))?;
        let (wrapped, rest) = rest.split_at(WRAPPED);
        Ok((Zeroizing::new(decrypt(&key.0, belongs_to, wrapped)?), rest))
    }
}

fn wrap(key: &MasterKey, belongs_to: &[u8], data_key: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut sealed = vec![FORM];
    sealed.extend(key.id().0);
    sealed.extend(encrypt(&key.0, belongs_to, data_key)?);
    Ok(sealed)
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
    let opened = key.open_in_place(nonce, Aad::from(belongs_to), &mut buffer).map(|value| value.to_vec());
    buffer.zeroize();
    opened.map_err(|_| SealError::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(keys: &[u8]) -> Envelope {
        let mut keys: Vec<MasterKey> = keys.iter().map(|byte| MasterKey([*byte; 32])).collect();
        let active = keys.remove(0);
        Envelope::new(Keyring { active, older: keys }, stead_testing::context(3).0)
    }

    #[test]
    fn a_value_opens_only_where_it_belongs() {
        let one = envelope(&[1]);
        let sealed = one.seal(b"project/key", b"stk_value").unwrap();
        assert!(!sealed.windows(4).any(|window| window == b"stk_"));
        assert_eq!(one.open(b"project/key", &sealed).unwrap(), b"stk_value");
        assert!(one.open(b"project/other", &sealed).is_err());
        assert!(matches!(envelope(&[2]).open(b"project/key", &sealed), Err(SealError::OtherKey(_))));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(one.open(b"project/key", &changed).is_err(), "byte {at}");
            assert!(one.open(b"project/key", &sealed[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn another_key_takes_over_without_the_value() {
        let sealed = envelope(&[1]).seal(b"here", b"value").unwrap();
        let both = envelope(&[2, 1]);
        let again = both.rewrap(b"here", &sealed).unwrap();
        assert_eq!(envelope(&[2]).open(b"here", &again).unwrap(), b"value");
        assert!(both.rewrap(b"there", &sealed).is_err());
        assert!(envelope(&[1]).open(b"here", &again).is_err());
    }
}
