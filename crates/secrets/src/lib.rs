//! Values at rest: the master keys, where they come from, and sealed envelopes; and signatures on what goes out and comes back.

mod command;
mod envelope;
mod key_file;
mod master_key;
mod sealing;
mod signer;
mod source;

pub use envelope::{Envelope, SealError};
pub use master_key::{KeyId, Keyring, MasterKey};
pub use sealing::{Sealing, key_error};
pub use signer::{Signer, SigningKey};
pub use source::{KeyError, KeySource};
