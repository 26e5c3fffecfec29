//! Values at rest: the master keys, where they come from, and sealed envelopes; signatures on what goes out and comes back; and where
//! secrets come from beside the store.

mod command;
mod envelope;
mod key_file;
mod master_key;
mod sealing;
mod signer;
mod source;
mod sources;

pub use envelope::{Envelope, SealError};
pub use master_key::{KeyId, Keyring, MasterKey};
pub use sealing::{Sealing, key_error};
pub use signer::{Signer, SigningKey};
pub use source::{KeyError, KeySource};
pub use sources::{Files, Template, TemplateError, Vault, VaultAddress, VaultAuth, VaultSettings};
