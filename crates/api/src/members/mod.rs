//! Members: one verb, one file.

pub mod add;
pub mod list;
pub mod remove;
pub mod role;

use stead_domain::ids::PrincipalId;
use stead_domain::{Error, Result};

/// A text that is no id is answered like an id that is nobody's.
pub(crate) fn parse_id(text: &str) -> Result<PrincipalId> {
    text.parse().map_err(|_| Error::not_found("member", text.chars().take(64).collect::<String>()))
}
