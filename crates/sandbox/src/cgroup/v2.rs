//! The unified hierarchy (v2): whoever may write a group's files may divide it, root or not.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::files::{field, make_directory, number, read, write};
use super::{Availability, Group, GroupUsage, Layout, Limits, PERIOD_MICROSECONDS, PREFIX, Support, quota};
use crate::error::Result;

/// Where those who were in a delegated group go: one that is divided may hold nobody itself.
const HOST: &str = "stead.host";

/// The directory of the unified hierarchy that is ours to divide, and what it controls.
pub fn find(mounts: &str, own: &str) -> Option<(PathBuf, String)> {
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        (after.split(' ').next() == Some("cgroup2")).then(|| (root.to_owned(), PathBuf::from(point)))
    });
    let (root, point) = mount?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A mount may show only a part of the hierarchy.
    let own = own.strip_prefix(root.as_str()).filter(|_| root != "/").unwrap_or(own).trim_start_matches('/');
    // Moved there by an earlier `prepare`.
    let own = own.strip_suffix(HOST).map_or(own, |above| above.trim_end_matches('/'));
    let base = if own.is_empty() { point } else { point.join(own) };
    let controllers = fs::read_to_string(base.join("cgroup.controllers")).ok()?;
    Some((base, controllers))
}

pub fn availability(base: &Path, controllers: &str) -> Availability {
    let ours = |file: &str| access(base.join(file), Access::WRITE_OK).is_ok();
    if access(base, Access::WRITE_OK).is_err() || !ours("cgroup.procs") || !ours("cgroup.subtree_control") {
        return Availability::none(&format!(
            "the cgroup {} is not delegated to this user (`systemd-run --user --scope -p Delegate=yes` makes one that is)",
            base.display()
        ));
    }
    let support = |name: &str| {
        if controllers.split_whitespace().any(|there| there == name) {
            Support::Enforced
        } else {
            Support::Unavailable(format!("the controller `{name}` is not delegated to {}", base.display()))
        }
    };
    Availability { memory: support("memory"), pids: support("pids"), cpu: support("cpu"), layout: Layout::Unified(base.to_owned()) }
}

/// Makes a group of its own for those who are in the delegated one, moves them there, and hands the controllers down.
pub fn prepare(base: &Path, available: &Availability) -> Result<()> {
    let wanted: String = [("memory", &available.memory), ("pids", &available.pids), ("cpu", &available.cpu)]
        .iter()
        .filter(|(_, support)| **support == Support::Enforced)
        .map(|(name, _)| format!("+{name} "))
        .collect();
    if base.join("cgroup.type").exists() {
        // Not the root of the hierarchy: that one may hold processes and be divided.
        let host = base.join(HOST);
        make_directory(&host)?;
        for _ in 0..100 {
            let there = read(&base.join("cgroup.procs"))?;
            if there.is_empty() {
                break;
            }
            for pid in there.lines() {
                // It may have ended meanwhile.
                let _ = write(&host.join("cgroup.procs"), pid);
            }
        }
    }
    let parent = base.join(PREFIX);
    make_directory(&parent)?;
    if !wanted.is_empty() {
        write(&base.join("cgroup.subtree_control"), wanted.trim())?;
        write(&parent.join("cgroup.subtree_control"), wanted.trim())?;
    }
    Ok(())
}

pub fn bound(group: &Group, limits: Limits) -> Result<()> {
    if let Some(bytes) = limits.memory_bytes {
        group.set("memory", "memory.max", &bytes.to_string())?;
        // There is no such file where there is no swap.
        group.set_if_there("memory", "memory.swap.max", "0")?;
    }
    if let Some(quota) = limits.cpus.map(quota) {
        group.set("cpu", "cpu.max", &format!("{quota} {PERIOD_MICROSECONDS}"))?;
    }
    Ok(())
}

pub fn usage(group: &Group) -> Result<GroupUsage> {
    Ok(GroupUsage {
        memory_bytes: number(&group.get("memory", "memory.current")?),
        peak_memory_bytes: number(&group.get("memory", "memory.peak")?),
        cpu_microseconds: field(&group.get("cpu", "cpu.stat")?, "usage_usec"),
        pids: number(&group.get("pids", "pids.current")?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Events;
    use super::*;

    /// A hierarchy made of ordinary files shows what is written to which.
    #[test]
    fn bounds_of_the_unified_hierarchy_are_written_as_it_wants_them() {
        let directory = tempfile::TempDir::new().unwrap();
        let base = directory.path();
        fs::write(base.join("cgroup.controllers"), "cpuset cpu memory pids").unwrap();
        for file in ["cgroup.procs", "cgroup.subtree_control"] {
            fs::write(base.join(file), "").unwrap();
        }
        let mounts = format!("41 31 0:38 / {} rw,relatime - cgroup2 cgroup2 rw\n", base.display());
        let (found, controllers) = find(&mounts, "0::/stead.host\n").unwrap();
        assert_eq!(found, base);
        let available = availability(&found, &controllers);
        assert_eq!((&available.memory, &available.pids, &available.cpu), (&Support::Enforced, &Support::Enforced, &Support::Enforced));
        let group = base.join("stead/one");
        fs::create_dir_all(&group).unwrap();
        fs::write(base.join("stead/cgroup.subtree_control"), "").unwrap();
        available.prepare().unwrap();
        assert_eq!(fs::read_to_string(base.join("cgroup.subtree_control")).unwrap(), "+memory +pids +cpu");
        for file in ["memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.procs", "cgroup.kill"] {
            fs::write(group.join(file), "").unwrap();
        }
        let limits = Limits { memory_bytes: Some(1 << 20), pids: Some(7), cpus: Some(1.5) };
        let made = Group::create(&available, "one", limits).unwrap();
        made.attach(42).unwrap();
        made.kill().unwrap();
        let said = |file: &str| fs::read_to_string(group.join(file)).unwrap();
        assert_eq!((said("memory.max"), said("memory.swap.max")), ("1048576".to_owned(), "0".to_owned()));
        assert_eq!(
            (said("pids.max"), said("cpu.max"), said("cgroup.procs"), said("cgroup.kill")),
            ("7".into(), "150000 100000".into(), "42".into(), "1".into())
        );
        for (file, text) in [
            ("memory.current", "10\n"),
            ("memory.peak", "20\n"),
            ("cpu.stat", "usage_usec 30\nuser_usec 1\n"),
            ("pids.current", "4\n"),
            ("memory.events", "low 0\noom 9\noom_kill 2\n"),
            ("pids.events", "max 3\n"),
        ] {
            fs::write(group.join(file), text).unwrap();
        }
        assert_eq!(made.usage().unwrap(), GroupUsage { memory_bytes: 10, peak_memory_bytes: 20, cpu_microseconds: 30, pids: 4 });
        assert_eq!(made.events().unwrap(), Events { oom_kills: 2, pids_hits: 3 });
        assert_eq!(available.leftovers().unwrap(), ["one"]);
    }
}
