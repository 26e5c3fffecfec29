//! Whole trees into a place and out of it, beside `tar` piped to `tar`. Each of them begins with a tree and ends with one.

use std::fs;
use std::io::{Error, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::contest::{Contest, Results};
use super::stead::Stead;
use super::{stream, tree};
use crate::load::ENVIRONMENTS;

const PIPED: &str = "tar | tar";
pub const UPLOAD: &str = "stead upload";
pub const DOWNLOAD: &str = "stead download";
pub const LARGE: &str = "a tree of 2,000 files, 100 MB";
pub const SMALL: &str = "a tree of 5,000 files, 5 MB";

pub async fn race(stead: &Stead, quick: bool, results: &mut Results) {
    for (what, files, bytes) in [(LARGE, 2000, 50_000), (SMALL, 5000, 1000)] {
        let files = if quick { files / 20 } else { files };
        let mut contest = Contest::new(what, &[PIPED, UPLOAD, DOWNLOAD]);
        let (id, workspace) = stead.caller().await.create().await;
        let (source, inside) = (stead.beside().join("tree"), workspace.join("tree"));
        for root in [&source, &inside] {
            fs::create_dir(root).unwrap();
            tree::plant(root, files, bytes).unwrap();
        }
        // A new connection: the server does not wait long for one that is idle, and planting takes its time.
        stead.caller().await.tell(&id, "wake").await;
        let (there, back) = (stead.beside().join("there"), stead.beside().join("back"));
        let archive = |path: &str| format!("{ENVIRONMENTS}/{id}/files/archive?path={path}");
        for _ in 0..if quick { 1 } else { 3 } {
            contest.add(PIPED, timed(&there, || piped(&source, &there)));
            contest.add(UPLOAD, timed(&workspace.join("up"), || packed(&source, |tar| stream::upload(stead, &archive("up"), tar))));
            contest.add(DOWNLOAD, timed(&back, || unpacked(&back, |tar| stream::download(stead, &archive("tree"), tar))));
            tokio::task::yield_now().await;
        }
        stead.caller().await.delete(&id).await;
        fs::remove_dir_all(source).unwrap();
        contest.end(results);
    }
}

/// How long it took until the tree was there. It goes again.
fn timed(made: &Path, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let started = Instant::now();
    work()?;
    let took = started.elapsed();
    fs::remove_dir_all(made)?;
    Ok(took)
}

fn tar(directory: &Path, rest: &[&str]) -> Command {
    let mut command = Command::new("tar");
    command.arg("-C").arg(directory).args(rest).stdin(Stdio::null());
    command
}

fn start(mut command: Command) -> Result<Child> {
    command.spawn().map_err(|error| Error::new(error.kind(), format!("tar: {error}")))
}

fn end(mut child: Child) -> Result<()> {
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(Error::other(format!("tar: {status}"))) }
}

fn packing(from: &Path) -> Result<Child> {
    let mut packing = tar(from, &["-cf", "-", "."]);
    packing.stdout(Stdio::piped());
    start(packing)
}

fn piped(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    let mut packing = packing(from)?;
    let mut unpacking = tar(to, &["-xf", "-"]);
    unpacking.stdin(packing.stdout.take().map_or_else(Stdio::null, Stdio::from));
    end(start(unpacking)?)?;
    end(packing)
}

fn packed(from: &Path, send: impl FnOnce(&mut std::process::ChildStdout) -> Result<u64>) -> Result<()> {
    let mut packing = packing(from)?;
    let mut archive = packing.stdout.take().ok_or_else(|| Error::other("no stdout"))?;
    send(&mut archive)?;
    end(packing)
}

fn unpacked(to: &Path, take: impl FnOnce(&mut std::process::ChildStdin) -> Result<u64>) -> Result<()> {
    fs::create_dir(to)?;
    let mut unpacking = tar(to, &["-xf", "-"]);
    unpacking.stdin(Stdio::piped());
    let mut unpacking = start(unpacking)?;
    let mut archive = unpacking.stdin.take().ok_or_else(|| Error::other("no stdin"))?;
    take(&mut archive)?;
    drop(archive);
    end(unpacking)
}
