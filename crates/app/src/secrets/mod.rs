//! Secrets: set by name, kept sealed, and opened for nobody but a place that may use them.

mod history;
mod list;
mod remove;
mod resolve;
mod rotate;
mod set;
mod source;

use stead_domain::ids::{ProjectId, SecretId};
use stead_domain::{Code, Error};

pub(crate) use resolve::Resolved;
pub use resolve::{Authority, Brokered, Delivery};
pub use rotate::SIGNING_KEY_BELONGS_TO;
pub use source::{SecretSource, SourceFailure, SourceRule};

/// What a sealed value is bound to: it opens nowhere else, also not as an earlier or later version of itself.
fn belongs_to(project: ProjectId, name: &str, id: SecretId, version: u64) -> Vec<u8> {
    format!("secret/{project}/{name}/{id}/{version}").into_bytes()
}

fn unknown(name: &str) -> Error {
    Error::not_found("secret", name.chars().take(128).collect::<String>()).suggestion("`stead secret list` shows those of the project")
}

/// The key in our hands is not the one that the store is sealed with.
fn other_key(stored: &str, own: &str) -> Error {
    Error::new(Code::MasterKeyMismatch, format!("this server holds the master key {own}, and the store is sealed with {stored}"))
        .suggestion("the key was changed through another server: give this one the same `master.key` (or let its key_command print the new one); a server that has the key in STEAD_MASTER_KEY has to be started again")
}
