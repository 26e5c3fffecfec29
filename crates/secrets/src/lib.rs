//! Values at rest: a master key and sealed envelopes.

mod envelope;
mod master_key;

pub use envelope::{Envelope, SealError};
pub use master_key::{MasterKey, MasterKeyError};
