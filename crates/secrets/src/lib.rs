//! Values at rest: a master key and sealed envelopes; and signatures on what goes out and comes back.

mod envelope;
mod master_key;
mod signer;

pub use envelope::{Envelope, SealError};
pub use master_key::{MasterKey, MasterKeyError};
pub use signer::Signer;
