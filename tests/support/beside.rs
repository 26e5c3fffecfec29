//! What a server starts beside itself outlives it, and must not outlive its test.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Spawner, stewards and relay of a data directory: they name it in their command line.
fn all(data_dir: &Path) -> Vec<Pid> {
    let mark = format!("{}/", data_dir.display());
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let named = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let role = line.split('\0').nth(1).unwrap_or_default();
        (["spawner", "relay", "place-check"].contains(&role) && line.contains(&mark)).then(|| Pid::from_raw(pid)).flatten()
    });
    named.collect()
}

/// Those who keep an awake environment: each is the parent of what is the first process inside.
pub fn stewards(data_dir: &Path) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: Vec<i32> = pids
        .filter(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.split(|byte| *byte == 0).next() == Some(b"init")))
        .filter_map(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
        })
        .collect();
    all(data_dir).into_iter().filter(|pid| parents.contains(&pid.as_raw_nonzero().get())).collect()
}

/// Ends them and waits until they are gone.
pub fn end(data_dir: &Path) {
    for _ in 0..500 {
        let left = all(data_dir);
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks the relay to end, which else waits for a minute whether somebody needs it.
pub fn retire_relay(data_dir: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if let Ok(mut client) = stead_egress::control::Client::connect(&data_dir.join("relay")).await {
            let _ = client.retire().await;
        }
    });
}
