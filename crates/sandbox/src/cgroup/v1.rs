//! The old hierarchies (v1), each with its own controllers: only root divides them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};

use super::files::{number, read, write};
use super::{Availability, Group, GroupUsage, Layout, Limits, PERIOD_MICROSECONDS, Support, quota};
use crate::error::{Error, Result};

/// What the old hierarchies must control for us; the first three are bounds, the others serve to count and to end.
const SEPARATE: [&str; 5] = ["memory", "pids", "cpu", "cpuacct", "freezer"];

/// The old hierarchies that we use, as they are mounted.
pub fn find(mounts: &str) -> Vec<(&'static str, PathBuf)> {
    let mut found: Vec<(&'static str, PathBuf)> = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut after = after.split(' ');
        if after.next() != Some("cgroup") {
            continue;
        }
        let (Some(point), Some(options)) = (before.split(' ').nth(4), after.nth(1)) else { continue };
        for name in SEPARATE {
            if options.split(',').any(|option| option == name) && !found.iter().any(|(known, _)| *known == name) {
                found.push((name, PathBuf::from(point)));
            }
        }
    }
    found
}

pub fn availability(hierarchies: Vec<(&'static str, PathBuf)>) -> Availability {
    let writable = |root: &Path| access(root, Access::WRITE_OK).is_ok();
    let support = |name: &str| match hierarchies.iter().find(|(known, _)| *known == name) {
        None => Support::Unavailable(format!("this kernel has no cgroup controller `{name}`")),
        Some((_, root)) if !writable(root) => Support::Unavailable("with cgroups of version 1 only root can bound it".to_owned()),
        Some(_) => Support::Enforced,
    };
    let (memory, pids, cpu) = (support("memory"), support("pids"), support("cpu"));
    let usable = hierarchies.iter().all(|(_, root)| writable(root));
    Availability { memory, pids, cpu, layout: if usable { Layout::Separate(hierarchies) } else { Layout::None } }
}

pub fn bound(group: &Group, limits: Limits) -> Result<()> {
    if let Some(bytes) = limits.memory_bytes {
        let bytes = bytes.to_string();
        // The two bounds may never cross: whichever way they change, one order works.
        if group.set("memory", "memory.limit_in_bytes", &bytes).is_err() {
            group.set_if_there("memory", "memory.memsw.limit_in_bytes", &bytes)?;
            group.set("memory", "memory.limit_in_bytes", &bytes)?;
        }
        group.set_if_there("memory", "memory.memsw.limit_in_bytes", &bytes)?;
        group.set_if_there("memory", "memory.swappiness", "0")?;
    }
    if let Some(quota) = limits.cpus.map(quota) {
        group.set("cpu", "cpu.cfs_period_us", &PERIOD_MICROSECONDS.to_string())?;
        group.set("cpu", "cpu.cfs_quota_us", &quota.to_string())?;
    }
    Ok(())
}

pub fn usage(group: &Group) -> Result<GroupUsage> {
    Ok(GroupUsage {
        memory_bytes: number(&group.get("memory", "memory.usage_in_bytes")?),
        peak_memory_bytes: number(&group.get("memory", "memory.max_usage_in_bytes")?),
        cpu_microseconds: number(&group.get("cpuacct", "cpuacct.usage")?) / 1_000,
        pids: number(&group.get("pids", "pids.current")?),
    })
}

/// Holds them all still first, so that none makes another meanwhile, and so that no number is given to somebody else.
pub fn kill(group: &Group) -> Result<()> {
    let freezer = group.directory("freezer");
    for _ in 0..1_000 {
        if let Some(freezer) = &freezer {
            // Not all of them may be still at once; each round catches more.
            let _ = write(&freezer.join("freezer.state"), "FROZEN");
        }
        let mut pids: Vec<i32> = Vec::new();
        for directory in group.directories() {
            let text = read(&directory.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
        }
        for pid in &pids {
            // SAFETY: plain system call. The process is held still and so still has its number.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        if let Some(freezer) = &freezer {
            let _ = write(&freezer.join("freezer.state"), "THAWED");
        }
        if pids.is_empty() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Err(Error::Outside { step: format!("end the processes of {}", group.name()), cause: io::ErrorKind::TimedOut.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn the_hierarchies_are_found_where_they_are_mounted() {
        let found = find(HYBRID);
        let root = |name: &str| found.iter().find(|(known, _)| *known == name).map(|(_, path)| path.display().to_string());
        assert_eq!(root("cpu").as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(root("cpuacct"), root("cpu"));
        assert_eq!(root("memory").as_deref(), Some("/sys/fs/cgroup/memory"));
        assert_eq!(root("pids"), None);
    }
}
