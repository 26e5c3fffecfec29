//! API keys: one verb, one file.

pub mod create;
pub mod get;
pub mod list;
pub mod revoke;

use stead_domain::ids::ApiKeyId;
use stead_domain::{Error, Result};

/// A text that is no id is answered like an id that is nobody's.
pub(crate) fn parse_id(text: &str) -> Result<ApiKeyId> {
    text.parse().map_err(|_| Error::not_found("API key", text.chars().take(64).collect::<String>()))
}
