//! Bounds on what a whole place may use: memory, processes, processor time.
//!
//! With the unified hierarchy (v2) where a part of it is ours to divide, with the old ones (v1) as root, else not at all, and then it is said
//! why. The keeper stays outside of the groups, so that what happens to a place does not happen to its keeper.

mod files;
mod freezer;
mod group;
mod v1;
mod v2;

use std::fs;
use std::io;
use std::path::PathBuf;

pub use self::freezer::Freezer;
pub use self::group::Group;
use crate::error::{Result, Step};

/// Below this all groups of ours lie.
const PREFIX: &str = "stead";
/// How long the processor time of a group is shared out at a time.
const PERIOD_MICROSECONDS: u64 = 100_000;

/// Whether a bound can be kept here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    Enforced,
    /// Says why not, and what would help.
    Unavailable(String),
}

/// What this host lets us bound.
#[derive(Clone, Debug)]
pub struct Availability {
    pub memory: Support,
    pub pids: Support,
    pub cpu: Support,
    layout: Layout,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    /// The directory that is ours to divide.
    Unified(PathBuf),
    /// The roots of the hierarchies, each with what it controls.
    Separate(Vec<(&'static str, PathBuf)>),
    None,
}

/// What a group may use; nothing said is nothing bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Without any swap.
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
    pub cpus: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    pub memory_bytes: u64,
    pub peak_memory_bytes: u64,
    pub cpu_microseconds: u64,
    pub pids: u64,
}

/// How often a bound was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub oom_kills: u64,
    pub pids_hits: u64,
}

impl Availability {
    /// Looks at the host. Changes nothing.
    pub fn probe() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let separate = v1::find(&mounts);
        let unified = v2::find(&mounts, &own);
        if let Some((base, controllers)) = &unified
            && ["memory", "pids", "cpu"].iter().any(|name| controllers.split_whitespace().any(|there| there == *name))
        {
            return v2::availability(base, controllers);
        }
        match (separate.is_empty(), unified) {
            (false, _) => v1::availability(separate),
            // Nothing can be bounded, but those in a group can be ended together.
            (true, Some((base, controllers))) => v2::availability(&base, &controllers),
            (true, None) => Self::none("this host has no cgroups mounted"),
        }
    }

    fn none(why: &str) -> Self {
        let why = Support::Unavailable(why.to_owned());
        Self { memory: why.clone(), pids: why.clone(), cpu: why, layout: Layout::None }
    }

    /// Whether groups can be made at all, with or without bounds.
    pub fn has_groups(&self) -> bool {
        self.layout != Layout::None
    }

    /// Makes ready what groups are made in. Once per host process, before the first group; again does no harm. In a delegated group this
    /// moves those who are in it, this process among them, one level down.
    pub fn prepare(&self) -> Result<()> {
        match &self.layout {
            Layout::Unified(base) => v2::prepare(base, self),
            Layout::Separate(_) | Layout::None => Ok(()),
        }
    }

    /// The names of all groups that are there, also those that an earlier process made.
    pub fn leftovers(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for parent in self.layout.parents() {
            match fs::read_dir(&parent) {
                Ok(entries) => {
                    for entry in entries.filter_map(std::result::Result::ok).filter(|entry| entry.path().is_dir()) {
                        names.extend(entry.file_name().into_string());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).step(format!("read {}", parent.display())),
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}

impl Layout {
    fn parents(&self) -> Vec<PathBuf> {
        match self {
            Self::Unified(base) => vec![base.join(PREFIX)],
            Self::Separate(hierarchies) => hierarchies.iter().map(|(_, root)| root.join(PREFIX)).collect(),
            Self::None => Vec::new(),
        }
    }
}

/// How much of each period so many processors are.
fn quota(cpus: f64) -> u64 {
    ((cpus * PERIOD_MICROSECONDS as f64) as u64).max(1_000)
}

#[cfg(test)]
mod tests;
