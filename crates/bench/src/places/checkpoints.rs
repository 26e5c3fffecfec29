//! Checkpoints, restores and forks of small and large environments, beside copies.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::disk::fill;
use super::samples::Samples;
use super::stead::Stead;
use crate::report::Goal;

/// One size of an environment, and how long each took, at p50.
#[derive(Serialize)]
pub struct Sealing {
    pub files: usize,
    pub mebibytes: u64,
    pub rounds: usize,
    /// Of an environment that is awake, with one file changed.
    pub seal_milliseconds: f64,
    pub fork_milliseconds: f64,
    pub restore_milliseconds: f64,
    /// `cp -a` of the same files, once; not of those that would take minutes.
    pub copy_milliseconds: Option<f64>,
}

impl Sealing {
    fn said(&self) -> String {
        let copy = self.copy_milliseconds.map_or_else(|| "not run".to_owned(), |copy| format!("{copy:.0} ms"));
        format!(
            "{} files, {} MiB: sealed {:.2} ms, forked {:.2} ms, restored {:.2} ms; cp -a {copy}",
            self.files, self.mebibytes, self.seal_milliseconds, self.fork_milliseconds, self.restore_milliseconds
        )
    }
}

#[derive(Serialize)]
pub struct Checkpoints {
    pub sizes: Vec<Sealing>,
    pub dirty_mebibytes: u64,
    /// From the request to the disk, and one `syncfs` of as much.
    pub durable_milliseconds: f64,
    pub syncfs_milliseconds: f64,
}

impl Checkpoints {
    /// How much longer the slowest of all sizes takes than the fastest.
    fn growth(&self, of: impl Fn(&Sealing) -> f64) -> f64 {
        let all = || self.sizes.iter().map(&of);
        all().fold(0.0, f64::max) / all().fold(f64::INFINITY, f64::min)
    }

    fn worst(&self, of: impl Fn(&Sealing) -> f64) -> f64 {
        self.sizes.iter().map(of).fold(0.0, f64::max)
    }

    pub fn goals(&self) -> Vec<Goal> {
        let durable = self.durable_milliseconds / self.syncfs_milliseconds;
        let (seal, fork) = (|one: &Sealing| one.seal_milliseconds, |one: &Sealing| one.fork_milliseconds);
        vec![
            Goal::below("a checkpoint sealed, p50 of the slowest size", 5.0, " ms", self.worst(seal)),
            Goal::below("a fork, p50 of the slowest size", 3.0, " ms", self.worst(fork)),
            Goal::below("a restore, p50 of the slowest size", 10.0, " ms", self.worst(|one| one.restore_milliseconds)),
            Goal::at_most("a checkpoint sealed, slowest size against fastest", 1.5, "x", self.growth(seal)),
            Goal::at_most("a fork, slowest size against fastest", 1.5, "x", self.growth(fork)),
            Goal::at_most("a durable checkpoint, against one syncfs of as much", 1.5, "x", durable),
        ]
    }

    pub fn said(&self) -> String {
        let mut lines: Vec<String> = self.sizes.iter().map(Sealing::said).collect();
        let Self { dirty_mebibytes, durable_milliseconds, syncfs_milliseconds, .. } = self;
        lines.push(format!("{dirty_mebibytes} MiB dirty: durable {durable_milliseconds:.0} ms, syncfs {syncfs_milliseconds:.0} ms"));
        lines.join("\n")
    }
}

pub async fn speed(stead: &Stead, quick: bool) -> Checkpoints {
    let sizes: [(usize, u64); 4] =
        if quick { [(100, 1), (1000, 1), (10, 10), (10, 100)] } else { [(1000, 4), (100_000, 400), (10, 10), (10, 10_000)] };
    let rounds = if quick { 10 } else { 100 };
    let mut measured = Vec::new();
    for (files, mebibytes) in sizes {
        measured.push(one_size(stead, files, mebibytes, rounds).await);
    }
    let (dirty, times) = (if quick { 64 << 20 } else { 512 << 20 }, if quick { 2 } else { 5 });
    let (mut durable, mut synced) = (Samples::default(), Samples::default());
    for _ in 0..times {
        let (id, workspace) = stead.caller().await.create().await;
        sync(stead.beside());
        fill(&workspace.join("dirty"), dirty).await;
        // A new connection each time: the server does not wait long for one that is idle.
        let mut caller = stead.caller().await;
        let started = Instant::now();
        caller.checkpoint(&id, "durable").await;
        durable.add(started.elapsed());
        caller.delete(&id).await;
        let beside = stead.beside().join("dirty");
        sync(stead.beside());
        fill(&beside, dirty).await;
        let started = Instant::now();
        sync(stead.beside());
        synced.add(started.elapsed());
        fs::remove_file(beside).unwrap();
    }
    Checkpoints {
        sizes: measured,
        dirty_mebibytes: dirty >> 20,
        durable_milliseconds: durable.at(0.50),
        syncfs_milliseconds: synced.at(0.50),
    }
}

async fn one_size(stead: &Stead, files: usize, mebibytes: u64, rounds: usize) -> Sealing {
    let (id, workspace) = stead.caller().await.create().await;
    for directory in 0..files.div_ceil(1000) {
        let directory = workspace.join(format!("d{directory}"));
        fs::create_dir(&directory).unwrap();
        for file in 0..files.min(1000) {
            fill(&directory.join(file.to_string()), (mebibytes << 20) / files as u64).await;
        }
    }
    sync(stead.beside());
    let mut caller = stead.caller().await;
    let first = caller.checkpoint(&id, "durable").await;
    let (mut seals, mut forks, mut restores) = (Samples::default(), Samples::default(), Samples::default());
    for round in 0..rounds {
        caller.exec(&id, &["/bin/sh", "-c", &format!("echo {round} > changed")]).await;
        let started = Instant::now();
        caller.checkpoint(&id, "sealed").await;
        seals.add(started.elapsed());
        let started = Instant::now();
        let fork = caller.fork(&id, &first).await;
        forks.add(started.elapsed());
        caller.delete(&fork).await;
        let started = Instant::now();
        caller.restore(&id, &first).await;
        restores.add(started.elapsed());
    }
    let copy_milliseconds = (mebibytes <= 1000).then(|| {
        let started = Instant::now();
        let copy = stead.beside().join("copy");
        let status = Command::new("cp").arg("-a").arg(&workspace).arg(&copy).stdin(Stdio::null()).status().unwrap();
        assert!(status.success());
        let took = started.elapsed().as_secs_f64() * 1000.0;
        fs::remove_dir_all(copy).unwrap();
        took
    });
    stead.caller().await.delete(&id).await;
    let [seal_milliseconds, fork_milliseconds, restore_milliseconds] = [&seals, &forks, &restores].map(|samples| samples.at(0.50));
    Sealing { files, mebibytes, rounds, seal_milliseconds, fork_milliseconds, restore_milliseconds, copy_milliseconds }
}

fn sync(directory: &Path) {
    rustix::fs::syncfs(File::open(directory).unwrap()).unwrap();
}
