//! Who there is to be killed, by what it is.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Server,
    Spawner,
    Steward,
    Init,
    Relay,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Server, Self::Spawner, Self::Steward, Self::Init, Self::Relay];
}

/// A process that names the data directory, or the first of a place that such a one keeps: its pid, its parent's, its role, and which it is.
pub struct Found {
    pub pid: i32,
    parent: i32,
    role: String,
    is_first: bool,
}

pub fn all(data_dir: &Path) -> Vec<Found> {
    let mark = format!("{}/", data_dir.display());
    let found: Vec<Found> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let role = line.split('\0').nth(1).filter(|_| line.contains(&mark)).unwrap_or_default().to_owned();
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            let parent = field("PPid:")?.trim().parse().ok()?;
            let is_first = field("NSpid:")?.split_whitespace().count() > 1;
            Some(Found { pid, parent, role, is_first })
        })
        .collect();
    let keepers: Vec<i32> = found.iter().filter(|found| found.role == "spawner").map(|found| found.pid).collect();
    found.into_iter().filter(|found| !found.role.is_empty() || (found.is_first && keepers.contains(&found.parent))).collect()
}

/// One of a kind, if there is one now.
pub fn victim(data_dir: &Path, server: i32, kind: Kind, which: u64) -> Option<Pid> {
    let is_it = |found: &Found| match kind {
        Kind::Server => false,
        Kind::Relay => found.role == "relay",
        Kind::Init => found.is_first,
        // The spawner is the server's child and stewards are not.
        Kind::Spawner => found.role == "spawner" && !found.is_first && found.parent == server,
        Kind::Steward => found.role == "spawner" && !found.is_first && found.parent != server,
    };
    let found: Vec<Found> = all(data_dir).into_iter().filter(is_it).collect();
    let one = found.get(which as usize % found.len().max(1))?;
    Pid::from_raw(one.pid)
}

/// Whether it was still there.
pub fn kill(pid: Pid) -> bool {
    kill_process(pid, Signal::KILL).is_ok()
}
