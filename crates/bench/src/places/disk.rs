//! Much output, and a disk that others keep busy.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::machine;
use super::samples::Samples;
use super::stead::Stead;

const BLOCK: usize = 1 << 20;

#[derive(Serialize)]
pub struct OutputSpeed {
    pub bytes: u64,
    pub rounds: usize,
    pub cat_to_file_megabytes_per_second: f64,
    pub process_log_megabytes_per_second: f64,
    /// Of the faster rounds of each.
    pub share: f64,
}

impl OutputSpeed {
    pub fn said(&self) -> String {
        let Self { process_log_megabytes_per_second: log, cat_to_file_megabytes_per_second: cat, .. } = self;
        format!("output: {log:.0} MB/s through a log, {cat:.0} MB/s by cat")
    }
}

/// The same file by the same `cat`: into a file, and into a process' log. They take turns.
pub async fn output(stead: &Stead, bytes: u64, rounds: usize) -> OutputSpeed {
    let mut caller = stead.caller().await;
    let (id, workspace) = caller.create().await;
    let source = workspace.join("source");
    fill(&source, bytes).await;
    caller.tell(&id, "wake").await;
    let (mut native, mut through) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        let copy = stead.beside().join("copy");
        let started = Instant::now();
        let status = Command::new("cat").arg(&source).stdin(Stdio::null()).stdout(File::create(&copy).unwrap()).status().unwrap();
        native.add(started.elapsed());
        assert!(status.success());
        fs::remove_file(copy).unwrap();
        let started = Instant::now();
        caller.process(&id, &["cat", "source"]).await;
        through.add(started.elapsed());
        tokio::task::yield_now().await;
    }
    caller.delete(&id).await;
    let speed = |samples: &Samples| bytes as f64 / 1e3 / samples.at(0.0);
    OutputSpeed {
        bytes,
        rounds,
        cat_to_file_megabytes_per_second: speed(&native),
        process_log_megabytes_per_second: speed(&through),
        share: speed(&through) / speed(&native),
    }
}

#[derive(Serialize)]
pub struct Stop {
    pub rounds: usize,
    pub dirty_mebibytes_wanted: u64,
    /// The least that the kernel still had to write at the beginning of a stop.
    pub dirty_mebibytes: u64,
    pub quiet_milliseconds: f64,
    pub stop_p50_milliseconds: f64,
    pub stop_longest_milliseconds: f64,
    pub sleep_p50_milliseconds: f64,
    pub sleep_longest_milliseconds: f64,
}

impl Stop {
    pub fn said(&self) -> String {
        format!(
            "stop: {:.1} ms quiet, {:.1} ms (longest {:.1}) and sleep {:.1} ms (longest {:.1}) with {} MiB dirty",
            self.quiet_milliseconds,
            self.stop_p50_milliseconds,
            self.stop_longest_milliseconds,
            self.sleep_p50_milliseconds,
            self.sleep_longest_milliseconds,
            self.dirty_mebibytes,
        )
    }
}

/// An idle environment is stopped, and another put to sleep, while much on the same file system waits to be written.
pub async fn stop(stead: &Stead, dirty: u64, rounds: usize) -> Stop {
    let mut caller = stead.caller().await;
    let (stopped, _) = caller.create().await;
    let (sleeping, _) = caller.create().await;
    let (mut quiet, mut stops, mut sleeps) = (Samples::default(), Samples::default(), Samples::default());
    let mut least = u64::MAX;
    for round in 0..rounds * 2 {
        let is_quiet = round < rounds;
        for id in [&stopped, &sleeping] {
            // Something of its own that is not on the disk yet.
            caller.exec(id, &["/bin/sh", "-c", "echo something > file"]).await;
        }
        let neighbour = stead.beside().join("neighbour");
        if is_quiet {
            rustix::fs::syncfs(File::open(stead.beside()).unwrap()).unwrap();
        } else {
            fill(&neighbour, dirty).await;
            least = least.min((machine::meminfo("Dirty") + machine::meminfo("Writeback")) >> 10);
        }
        let started = Instant::now();
        caller.tell(&stopped, "stop").await;
        let took = started.elapsed();
        if is_quiet {
            quiet.add(took);
        } else {
            stops.add(took);
            let started = Instant::now();
            caller.tell(&sleeping, "sleep").await;
            sleeps.add(started.elapsed());
            fs::remove_file(&neighbour).unwrap();
        }
    }
    for id in [stopped, sleeping] {
        caller.delete(&id).await;
    }
    Stop {
        rounds,
        dirty_mebibytes_wanted: dirty >> 20,
        dirty_mebibytes: least,
        quiet_milliseconds: quiet.at(0.50),
        stop_p50_milliseconds: stops.at(0.50),
        stop_longest_milliseconds: stops.at(1.0),
        sleep_p50_milliseconds: sleeps.at(0.50),
        sleep_longest_milliseconds: sleeps.at(1.0),
    }
}

/// Written, and left to the kernel to put on the disk.
pub async fn fill(path: &Path, bytes: u64) {
    let mut file = File::create(path).unwrap();
    let block = vec![b'x'; BLOCK];
    let mut left = bytes as usize;
    let mut last = Instant::now();
    while left > 0 {
        let written = left.min(BLOCK);
        file.write_all(&block[..written]).unwrap();
        left -= written;
        if last.elapsed() > Duration::from_millis(100) {
            tokio::task::yield_now().await;
            last = Instant::now();
        }
    }
}
