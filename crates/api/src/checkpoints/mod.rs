//! Checkpoints and forks: one verb, one file.

pub mod create;
pub mod delete;
pub mod diff;
pub mod fork;
pub mod get;
pub mod list;
pub mod restore;

use stead_domain::ids::CheckpointId;
use stead_domain::{Error, Result};

/// A text that is no id is answered like an id that is nobody's.
pub(crate) fn parse_checkpoint(text: &str) -> Result<CheckpointId> {
    text.parse().map_err(|_| {
        Error::not_found("checkpoint", text.chars().take(64).collect::<String>())
            .suggestion("`stead checkpoint list ENVIRONMENT` shows them")
    })
}
