//! Sandboxes: one verb, one file.

pub mod create;
pub mod delete;
pub mod get;
pub mod list;

use stead_domain::ids::SandboxId;
use stead_domain::{Error, Result};

/// A text that is no id is answered like an id that is nobody's.
pub(crate) fn parse_id(text: &str) -> Result<SandboxId> {
    text.parse().map_err(|_| Error::not_found("sandbox", text.chars().take(64).collect::<String>()))
}
