//! What the kernel tells of memory, processes and mounts.

use std::fs;
use std::path::Path;

/// A value of `/proc/meminfo` or of a process' `smaps_rollup`, in KiB.
pub fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok())
}

pub fn meminfo(name: &str) -> u64 {
    field(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), name).unwrap_or(0)
}

/// What the kernel uses for itself, in KiB.
pub fn kernel() -> u64 {
    ["Slab", "KernelStack", "PageTables", "Percpu"].into_iter().map(meminfo).sum()
}

/// What a process costs with its share of what it shares; none when we may not look.
pub fn proportional(pid: u32) -> Option<u64> {
    field(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    pub pid: u32,
    pub parent: u32,
}

/// Pid and parent out of `/proc/<pid>/stat`, whose second field is a name that may hold anything.
fn parse_stat(text: &str) -> Option<Running> {
    let pid = text.split_whitespace().next()?.parse().ok()?;
    let parent = text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some(Running { pid, parent })
}

fn everything() -> Vec<Running> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| parse_stat(&fs::read_to_string(entry.path().join("stat")).ok()?)).collect()
}

/// All below a process, itself excluded.
fn below(all: &[Running], top: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut from = vec![top];
    while let Some(parent) = from.pop() {
        let children = all.iter().filter(|one| one.parent == parent && one.pid != parent).map(|one| one.pid);
        for child in children {
            found.push(child);
            from.push(child);
        }
    }
    found
}

/// What a server on this data directory has started and what it left: everything below it, and below everything that has the directory in
/// its command line, for stewards outlive servers and belong to nobody then.
pub fn started_by(server: u32, data: &Path) -> Vec<u32> {
    let all = everything();
    let mut pids = below(&all, server);
    for named in mentioning(data) {
        pids.push(named);
        pids.extend(below(&all, named));
    }
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|pid| *pid != server);
    pids
}

pub fn mentioning(data: &Path) -> Vec<u32> {
    let wanted = format!("{}/", data.display());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        line.split(|byte| *byte == 0).any(|word| String::from_utf8_lossy(word).starts_with(&wanted)).then_some(pid)
    });
    pids.collect()
}

/// How many mounts a process sees that come from below a directory or stand there.
pub fn mounts(pid: u32, directory: &Path) -> usize {
    count_mounts(&fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default(), &directory.display().to_string())
}

fn count_mounts(mountinfo: &str, directory: &str) -> usize {
    mountinfo.lines().filter(|line| line.contains(directory)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let text = "MemTotal:       24681900 kB\nMemAvailable:   23597000 kB\nDirty:              1208 kB\n";
        assert_eq!(field(text, "MemAvailable"), Some(23_597_000));
        assert_eq!((field(text, "Mem"), field(text, "Pss")), (None, None));
        assert_eq!(parse_stat("17 (a b) c) S 4 17 17 0"), Some(Running { pid: 17, parent: 4 }));
        assert_eq!(parse_stat("17 (a"), None);
        let all: Vec<Running> = [(2, 1), (3, 2), (4, 3), (5, 1)].map(|(pid, parent)| Running { pid, parent }).to_vec();
        assert_eq!(below(&all, 2), [3, 4]);
        assert_eq!(count_mounts("1 2 8:1 / /x rw\n3 1 8:1 /data/one /y rw\n4 1 0:9 / /data/two rw\n", "/data/"), 2);
        assert!(meminfo("MemAvailable") > 0 && everything().iter().any(|one| one.pid == std::process::id()));
    }
}
