//! Processes: one verb, one file.

pub mod delete;
pub mod exec;
mod frames;
pub mod get;
pub mod list;
pub mod logs;
mod raw_frames;
pub mod resize;
pub mod signals;
mod socket;
pub mod start;
pub mod stdin;
pub mod wait;

use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::{Error, Result};

use crate::environments::parse_id;

/// The two ids of a path. A text that is no id is answered like an id that is nobody's.
pub(crate) fn parse_ids(environment: &str, process: &str) -> Result<(EnvironmentId, ProcessId)> {
    let environment = parse_id(environment)?;
    let process = process.parse().map_err(|_| {
        Error::not_found("process", process.chars().take(64).collect::<String>())
            .suggestion("`stead ps --all` lists the processes of an environment")
    })?;
    Ok((environment, process))
}
