//! What there is of a data directory on this host, in figures.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Town, victims};

#[derive(Debug, PartialEq, Eq)]
pub struct Leftovers {
    /// Beside the server, the spawner and the relay.
    processes: usize,
    mounts: usize,
    /// Of processes that name the directory, other than our own.
    namespaces: usize,
    /// Named after an environment of the ledger.
    cgroups: usize,
    runs: Vec<String>,
    sandboxes: usize,
    trash: usize,
    /// Sockets and devices that the relay holds for environments.
    relay: usize,
}

impl Leftovers {
    pub fn of(town: &Town) -> Self {
        let data = town.path();
        let server = town.server.lock().unwrap().as_ref().unwrap().pid();
        let kept = |kind| victims::victim(data, server, kind, 0).map(|pid| pid.as_raw_nonzero().get());
        let (spawner, relay) = (kept(victims::Kind::Spawner), kept(victims::Kind::Relay));
        let all = victims::all(data);
        let others = all.iter().filter(|found| ![Some(server), spawner, relay].contains(&Some(found.pid)));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mark = data.display().to_string();
        let known = town.ledger.lock().unwrap().short_ids();
        Self {
            processes: others.count(),
            mounts: mounts.lines().filter(|line| line.contains(&mark)).count(),
            namespaces: namespaces(&all.iter().map(|found| found.pid).collect::<Vec<_>>()),
            cgroups: cgroups(&known),
            runs: names(&data.join("run")),
            sandboxes: super::super::directories(data).len(),
            trash: names(&data.join("trash")).len(),
            relay: relay.map_or(0, held),
        }
    }
}

impl Leftovers {
    /// All of it is seen where there is something to be seen: what is blind would find nothing in any case.
    pub fn assert_sees(&self, nothing: &Self, is_bounded: bool) {
        assert!(self.processes > 0 && self.relay > 0, "{self:?}");
        // Who is not root is not shown where init is.
        assert!(self.namespaces > 0 || !rustix::process::geteuid().is_root(), "{self:?}");
        assert_eq!(self.cgroups > 0, is_bounded, "{self:?}");
        assert!(!self.runs.is_empty() && self.sandboxes > nothing.sandboxes, "{self:?}");
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Namespaces that these processes are in and we are not.
fn namespaces(pids: &[i32]) -> usize {
    let of = |pid: &str| -> BTreeSet<String> {
        let directory = format!("/proc/{pid}/ns");
        let links = names(Path::new(&directory)).into_iter().filter_map(|name| std::fs::read_link(Path::new(&directory).join(name)).ok());
        links.map(|link| link.display().to_string()).collect()
    };
    let own = of("self");
    pids.iter().flat_map(|pid| of(&pid.to_string())).filter(|name| !own.contains(name)).collect::<BTreeSet<_>>().len()
}

/// Groups of environments that we made, in whatever hierarchy.
fn cgroups(known: &BTreeSet<String>) -> usize {
    let mut left = vec![(Path::new("/sys/fs/cgroup").to_owned(), 0)];
    let mut count = 0;
    while let Some((directory, depth)) = left.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                count += usize::from(known.contains(&*entry.file_name().to_string_lossy()));
                if depth < 4 {
                    left.push((entry.path(), depth + 1));
                }
            }
        }
    }
    count
}

/// What the relay has open beyond what it always has: listeners, streams and devices that belong to environments.
fn held(relay: i32) -> usize {
    let tcp = |file: &str| std::fs::read_to_string(format!("/proc/{relay}/net/{file}")).unwrap_or_default();
    // Sockets of another network are sockets of ours that its own network does not list.
    let inodes: BTreeSet<String> = ["tcp", "tcp6", "udp", "udp6", "unix", "netlink"]
        .iter()
        .flat_map(|file| tcp(file).split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let links = names(Path::new(&format!("/proc/{relay}/fd")));
    let links = links.iter().filter_map(|name| std::fs::read_link(format!("/proc/{relay}/fd/{name}")).ok());
    links
        .map(|link| link.display().to_string())
        .filter(|link| {
            let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            link.contains("/dev/net/tun") || inode.is_some_and(|inode| !inodes.contains(inode))
        })
        .count()
}
