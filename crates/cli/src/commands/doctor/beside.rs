//! What runs beside the server: the relay, the spawner, the stewards, and how many files they may have open.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use stead_egress::control::{Client, ClientError};

use super::check::Check;
use crate::server::DataDirectory;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PATIENCE: Duration = Duration::from_secs(2);
/// Some for each connection, each awake environment and each stream that leaves one.
const ENOUGH_FILES: u64 = 4096;

/// The server that holds the data directory now.
pub fn server(data_dir: &Path) -> Option<u32> {
    let held = DataDirectory::is_held(data_dir);
    held.then(|| fs::read_to_string(data_dir.join("lock")).ok()?.trim().parse().ok()).flatten()
}

pub async fn examine(data_dir: &Path, server: Option<u32>) -> Vec<Check> {
    let mut checks = vec![relay(data_dir).await];
    checks.extend(server.map(spawner));
    checks.extend(stewards(&data_dir.join("run"), boot_seconds()));
    checks.push(open_files(server));
    checks
}

async fn relay(data_dir: &Path) -> Check {
    let (code, name) = ("SD27", "relay");
    match tokio::time::timeout(PATIENCE, Client::connect(&data_dir.join("relay"))).await {
        Ok(Ok(client)) if client.version == VERSION => Check::ok(code, name, format!("{VERSION}, process {}", client.pid)),
        Ok(Ok(client)) => Check::warn(
            code,
            name,
            format!("it is {}, this command is {VERSION}; it goes on for as long as an environment needs it", client.version),
            format!("when nothing runs that needs the network: kill {}", client.pid),
        ),
        Ok(Err(ClientError::Unreachable(_))) => Check::ok(code, name, "not running; it is started when an environment needs the network"),
        Ok(Err(error)) => Check::fail(code, name, error.to_string(), "look into the server's log"),
        Err(_) => Check::fail(code, name, "it is there and does not answer", "end the process that has `relay` in its command line"),
    }
}

fn spawner(server: u32) -> Check {
    let (code, name) = ("SD28", "spawner");
    let Some(pid) = children(server).into_iter().find(|pid| second_word(*pid).as_deref() == Some(b"spawner")) else {
        return Check::warn(
            code,
            name,
            "it is not running; the server starts it with the next command",
            "try a command, or restart the server",
        );
    };
    let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    match program(pid) {
        Some(path) if path.to_string_lossy().ends_with(" (deleted)") => Check::warn(
            code,
            name,
            format!("process {pid} runs a program that has been replaced since"),
            "restart the server with `stead down` and `stead up`; commands go on",
        ),
        _ => Check::ok(code, name, format!("{VERSION}, process {pid}")),
    }
}

/// Of all threads of a process, as each has its own.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

fn second_word(pid: u32) -> Option<Vec<u8>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    line.split(|byte| *byte == 0).nth(1).map(<[u8]>::to_vec)
}

/// What stewards left that did not end by themselves; none where there never was one.
fn stewards(directory: &Path, booted: u64) -> Option<Check> {
    let (mut awake, mut left, mut of_another_boot) = (0, 0, 0);
    for entry in fs::read_dir(directory).ok()?.filter_map(Result::ok) {
        if is_held(&entry.path()) {
            awake += 1;
            continue;
        }
        left += 1;
        let made = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let made = made.and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
        of_another_boot += usize::from(made.is_some_and(|made| made.as_secs() < booted));
    }
    Some(if left == 0 {
        Check::ok("SD29", "stewards", format!("{awake} awake, nothing left over"))
    } else {
        let message = format!("{awake} awake, {left} left over ({of_another_boot} of them from before the machine was started)");
        Check::warn("SD29", "stewards", message, "restart the server (`stead down`, `stead up`): it removes them at its start")
    })
}

/// A steward holds the lock of its directory for as long as it lives.
fn is_held(directory: &Path) -> bool {
    let opened = rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    opened.is_ok_and(|held| matches!(flock(&held, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK)))
}

fn boot_seconds() -> u64 {
    let found = fs::read_to_string("/proc/stat").unwrap_or_default();
    found.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok()).unwrap_or(0)
}

fn open_files(server: Option<u32>) -> Check {
    let of_server = server.and_then(|pid| largest_number_of_files(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?));
    let own = || rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let limit = of_server.unwrap_or_else(own);
    let message = if limit == u64::MAX { "no limit".to_owned() } else { format!("at most {limit} at a time") };
    if limit >= ENOUGH_FILES {
        return Check::ok("SD30", "open files", message);
    }
    Check::warn(
        "SD30",
        "open files",
        message,
        format!("raise the hard limit to {ENOUGH_FILES} or more (LimitNOFILE= of the service, or `ulimit -Hn`)"),
    )
}

/// The hard limit: a server takes what it may.
fn largest_number_of_files(limits: &str) -> Option<u64> {
    let hard = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().nth(1))?;
    if hard == "unlimited" { Some(u64::MAX) } else { hard.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    #[test]
    fn what_nobody_holds_is_left_over() {
        let directory = tempfile::tempdir().unwrap();
        assert!(stewards(&directory.path().join("none"), 0).is_none());
        for name in ["held", "left"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let held = rustix::fs::open(directory.path().join("held"), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        let check = stewards(directory.path(), u64::MAX).unwrap();
        assert_eq!(check.status, Status::Warn);
        assert!(check.message.starts_with("1 awake, 1 left over (1 of them"), "{}", check.message);
        fs::remove_dir(directory.path().join("left")).unwrap();
        assert_eq!(stewards(directory.path(), 0).unwrap().status, Status::Ok);
    }

    #[test]
    fn the_hard_limit_counts() {
        let line = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        assert_eq!(largest_number_of_files(line), Some(524_288));
        assert_eq!(largest_number_of_files(""), None);
    }
}
