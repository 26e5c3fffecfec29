//! Environments as records: create, read, edit, delete, and their versions.

mod changes;
pub(crate) mod create;
mod delete;
mod egress;
mod life;
mod news;
mod posture;
mod read;
mod update;
mod versions;

pub use create::NewEnvironment;
pub(crate) use delete::begin_destroying;
pub(crate) use life::settled_activity;
pub use read::EnvironmentQuery;
pub use update::EnvironmentEdit;
pub use versions::VersionDiff;

use stead_domain::Error;
use stead_domain::ids::EnvironmentId;

pub(crate) fn unknown(id: EnvironmentId) -> Error {
    Error::not_found("environment", id).suggestion("`stead env list` shows those that are there")
}
