//! Environments: one verb, one file.

pub mod activity;
pub mod changes;
pub mod changes_drop;
pub mod changes_keep;
pub mod checkout;
pub mod create;
pub mod delete;
pub mod egress;
pub mod export;
pub mod get;
pub mod git_credentials;
pub mod import;
pub mod list;
pub mod posture;
pub mod reconcile;
pub mod rollback;
pub mod setup;
pub mod sleep;
pub mod stop;
pub mod update;
pub mod version;
pub mod version_diff;
pub mod versions;
pub mod wake;

use stead_domain::ids::EnvironmentId;
use stead_domain::{Error, Result};

/// A text that is no id is answered like an id that is nobody's.
pub(crate) fn parse_id(text: &str) -> Result<EnvironmentId> {
    text.parse().map_err(|_| {
        Error::not_found("environment", text.chars().take(64).collect::<String>()).suggestion("`stead env list` shows those that are there")
    })
}

/// The number of a version.
pub(crate) fn parse_version(text: &str) -> Result<u64> {
    let version = text.parse::<u64>().ok().filter(|version| (1..=u64::from(u32::MAX)).contains(version));
    version.ok_or_else(|| Error::not_found("version", text.chars().take(64).collect::<String>()))
}
