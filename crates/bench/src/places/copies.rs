//! Another copy of the same files that can be written to: by checkpoints and forks, and by what else makes one on this machine.

use std::fs;
use std::io::{Error, Result};
use std::path::Path;
use std::time::Instant;

use super::containers::Containers;
use super::contest::{Contest, Results};
use super::helper::{Output, run_here};
use super::stead::Stead;
use super::tree;
use super::volume::Volume;

pub const COPY: &str = "another copy of 2,000 files, 64 MB";
const CP: &str = "cp -a";
const FORK: &str = "stead fork";
const SEAL: &str = "stead checkpoint, sealed";
const XFS: &str = "cp -a --reflink, XFS";
const BTRFS: &str = "cp -a --reflink, Btrfs";
const SNAPSHOT: &str = "btrfs subvolume snapshot";
const COMMIT: &str = "podman commit";
/// What takes a second does not need as many turns.
const COMMIT_EACH: usize = 5;

pub async fn race(stead: &Stead, quick: bool, results: &mut Results) {
    let mut contest = Contest::new(COPY, &[CP, FORK, SEAL, XFS, BTRFS, SNAPSHOT, COMMIT]);
    let directory = stead.beside().join("copies");
    fs::create_dir(&directory).unwrap();
    let (id, workspace) = stead.caller().await.create().await;
    tree::plant(&workspace, if quick { 200 } else { 2000 }, 32_000).unwrap();
    let first = stead.caller().await.checkpoint(&id, "durable").await;
    // Not deeper: podman takes no long paths.
    let others = Others::prepare(&mut contest, &directory, &stead.beside().join("podman"), &workspace);
    for round in 0..if quick { 2 } else { 10 } {
        contest.add(CP, copy(&workspace, &directory.join("copy")));
        // A new connection each time: the server does not wait long for one that is idle.
        let mut caller = stead.caller().await;
        caller.exec(&id, &["/bin/sh", "-c", &format!("echo {round} > changed")]).await;
        let started = Instant::now();
        caller.checkpoint(&id, "sealed").await;
        contest.add(SEAL, Ok(started.elapsed()));
        let started = Instant::now();
        let fork = caller.fork(&id, &first).await;
        contest.add(FORK, Ok(started.elapsed()));
        caller.delete(&fork).await;
        others.turn(&mut contest, round);
        // Lets an interruption be heard.
        tokio::task::yield_now().await;
    }
    stead.caller().await.delete(&id).await;
    drop(others);
    fs::remove_dir_all(directory).unwrap();
    contest.end(results);
}

fn copy(from: &Path, to: &Path) -> Result<std::time::Duration> {
    let (from, shown) = (from.display().to_string(), to.display().to_string());
    let took = run_here(&["cp", "-a", &from, &shown].map(str::to_owned), Output::Nowhere)?.0;
    fs::remove_dir_all(to)?;
    Ok(took)
}

/// Each may be missing, with everything that it needs.
struct Others {
    xfs: Option<Volume>,
    btrfs: Option<Volume>,
    containers: Option<Containers>,
}

impl Others {
    fn prepare(contest: &mut Contest, directory: &Path, podman: &Path, tree: &Path) -> Self {
        let from = tree.display().to_string();
        let xfs = Volume::new(directory, "xfs", &["mkfs.xfs", "-q"])
            .and_then(|volume| volume.run(&["cp", "-a", &from, &volume.path("tree")]).map(|_| volume));
        let btrfs = Volume::new(directory, "btrfs", &["mkfs.btrfs", "-q"]).and_then(|volume| {
            volume.run(&["btrfs", "subvolume", "create", &volume.path("tree")])?;
            volume.run(&["cp", "-a", &format!("{from}/."), &volume.path("tree")]).map(|_| volume)
        });
        let containers = Containers::prepare(podman.to_owned()).and_then(|containers| {
            containers.prepare_podman()?;
            containers.hold()?;
            containers.fill(tree).map(|()| containers)
        });
        let mut taken = |contenders: &[&'static str], error: &Error| {
            for contender in contenders {
                contest.add(contender, Err(Error::new(error.kind(), error.to_string())));
            }
        };
        Self {
            xfs: xfs.inspect_err(|error| taken(&[XFS], error)).ok(),
            btrfs: btrfs.inspect_err(|error| taken(&[BTRFS, SNAPSHOT], error)).ok(),
            containers: containers.inspect_err(|error| taken(&[COMMIT], error)).ok(),
        }
    }

    fn turn(&self, contest: &mut Contest, round: usize) {
        for (contender, volume) in [(XFS, &self.xfs), (BTRFS, &self.btrfs)] {
            let Some(volume) = volume.as_ref().filter(|_| contest.is_in(contender)) else { continue };
            contest.add(contender, reflink(volume));
        }
        if let Some(volume) = self.btrfs.as_ref().filter(|_| contest.is_in(SNAPSHOT)) {
            contest.add(SNAPSHOT, snapshot(volume));
        }
        if let Some(containers) = self.containers.as_ref().filter(|_| contest.is_in(COMMIT) && round.is_multiple_of(COMMIT_EACH)) {
            contest.add(COMMIT, containers.podman_commit());
        }
    }
}

fn reflink(volume: &Volume) -> Result<std::time::Duration> {
    let copy = volume.path("copy");
    let took = volume.run(&["cp", "-a", "--reflink=always", &volume.path("tree"), &copy])?;
    volume.run(&["rm", "-r", &copy])?;
    Ok(took)
}

fn snapshot(volume: &Volume) -> Result<std::time::Duration> {
    let copy = volume.path("snapshot");
    let took = volume.run(&["btrfs", "subvolume", "snapshot", &volume.path("tree"), &copy])?;
    volume.run(&["btrfs", "subvolume", "delete", &copy])?;
    Ok(took)
}
