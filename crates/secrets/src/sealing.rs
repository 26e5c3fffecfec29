//! What the rest of Stead sees of all this: one object that seals, opens and signs.

use stead_app::Sealer;
use stead_domain::{Code, Context, Error, Result};

use crate::envelope::{Envelope, SealError};
use crate::master_key::Keyring;
use crate::signer::{Signer, SigningKey};
use crate::source::{KeyError, KeySource};

pub struct Sealing {
    envelope: Envelope,
    signer: Signer,
    source: KeySource,
    context: Context,
}

impl Sealing {
    pub fn new(ring: Keyring, signing: &SigningKey, source: KeySource, context: Context) -> Self {
        Self { envelope: Envelope::new(ring, context.clone()), signer: Signer::new(signing), source, context }
    }

    /// For a store that nothing was sealed in yet.
    pub fn first(source: KeySource, context: Context) -> Result<Self> {
        let ring = match source.load().map_err(key_error)? {
            Some(ring) => ring,
            None => source.create(&context).map_err(key_error)?.ok_or_else(|| Error::internal("there is no master key"))?,
        };
        let signing = SigningKey::first(&ring.active);
        Ok(Self::new(ring, &signing, source, context))
    }
}

impl Sealer for Sealing {
    fn seal(&self, belongs_to: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        self.envelope.seal(belongs_to, value).map_err(failed)
    }

    fn open(&self, belongs_to: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        self.envelope.open(belongs_to, sealed).map_err(failed)
    }

    fn sign(&self, content: &[u8]) -> Result<[u8; 32]> {
        Ok(self.signer.sign(content))
    }

    fn is_signed(&self, content: &[u8], signature: &[u8]) -> bool {
        self.signer.is_signed(content, signature)
    }

    fn key_id(&self) -> String {
        self.envelope.ring().active.id().to_string()
    }

    fn rewrap(&self, belongs_to: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        self.envelope.rewrap(belongs_to, sealed).map_err(failed)
    }

    fn use_key(&self, id: &str) -> Result<bool> {
        let ring = self.envelope.ring();
        let ring = match ring.sealing_with(id) {
            Some(ring) => Some(ring),
            // Whoever keeps the keys may have given another one meanwhile.
            None => self.source.load().map_err(key_error)?.and_then(|given| given.joined(&ring).sealing_with(id)),
        };
        let is_here = ring.is_some();
        ring.into_iter().for_each(|ring| self.envelope.set_ring(ring));
        Ok(is_here)
    }

    fn next_key(&self) -> Result<()> {
        let next = self.source.next(&self.envelope.ring(), &self.context).map_err(key_error)?;
        self.envelope.set_ring(next);
        Ok(())
    }

    fn forget_older_keys(&self) -> Result<()> {
        let ring = self.envelope.ring();
        if ring.older.is_empty() {
            return Ok(());
        }
        self.source.forget_older(&ring).map_err(key_error)?;
        self.envelope.set_ring(Keyring::of(ring.active.clone()));
        Ok(())
    }
}

fn failed(error: SealError) -> Error {
    Error::internal(error)
}

/// What helps with a key that cannot be had.
pub fn key_error(error: KeyError) -> Error {
    let suggestion = match &error {
        KeyError::File { .. } | KeyError::Exposed(_) => "`stead doctor --fix` mends permissions",
        KeyError::Malformed(_) => "look for a copy of it: what was sealed with it opens with nothing else",
        KeyError::Variable => {
            "64 hexadecimal digits, as `openssl rand -hex 32` prints; several keys are separated by commas, the one in use first"
        }
        KeyError::Command { .. } => "it prints 64 hexadecimal digits, and ends with 0; run it by hand to see what it says",
        KeyError::NothingNew(_) => "let it give the new key first and the present one after it; a variable is read when the server starts",
    };
    Error::new(if matches!(error, KeyError::NothingNew(_)) { Code::Conflict } else { Code::LocalFile }, error.to_string())
        .suggestion(suggestion)
}
