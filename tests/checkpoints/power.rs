//! The power goes: what was written and not synced is lost, and every checkpoint that was acknowledged as durable is whole.
//!
//! The data directory lies on a filesystem of its own in a file. A copy of that file, taken at a moment, holds what has reached the disk, and
//! nothing of what is only in memory. The copy is mounted, as after the power came back, and another server finds what is there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::Spot;
use super::tree::{MANIFEST, Tree};
use crate::api::world::text;
use crate::crashes::{Dice, proving};
use crate::support::Server;

/// A filesystem in a file, mounted for as long as this is there.
struct Disk {
    at: PathBuf,
}

impl Disk {
    fn make(file: &Path) -> Result<(), String> {
        std::fs::File::create(file).unwrap().set_len(96 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", "-O", "has_journal", &file.display().to_string()])
    }

    /// Its own writing back is put off, so that nothing reaches the disk but what is synced.
    fn mount(file: &Path, at: PathBuf) -> Result<Self, String> {
        std::fs::create_dir(&at).unwrap();
        run("mount", &["-o", "loop,commit=600", &file.display().to_string(), &at.display().to_string()])?;
        Ok(Self { at })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for _ in 0..200 {
            if run("umount", &[&self.at.display().to_string()]).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        assert!(std::thread::panicking(), "{} is still mounted", self.at.display());
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn server_on(disk: &Disk) -> Server {
    // Always of one name, so that the second server finds what the first one left.
    let mut builder = tempfile::Builder::new();
    builder.prefix("data").rand_bytes(0).disable_cleanup(true);
    let directory = match builder.tempdir_in(&disk.at) {
        Ok(directory) => directory,
        Err(_) => {
            let found = disk.at.join("data");
            std::fs::rename(&found, disk.at.join("kept")).unwrap();
            let directory = builder.tempdir_in(&disk.at).unwrap();
            std::fs::remove_dir(directory.path()).unwrap();
            std::fs::rename(disk.at.join("kept"), directory.path()).unwrap();
            directory
        }
    };
    Server::builder().on(Arc::new(directory)).with(&["--rate-limit", "0"]).start()
}

#[test]
fn a_durable_checkpoint_survives_the_loss_of_everything_that_was_not_synced() {
    let rounds = if proving() { 25 } else { 3 };
    let directory = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let file = directory.path().join("disk");
    let disk = match Disk::make(&file).and_then(|()| Disk::mount(&file, directory.path().join("before"))) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("NOT RUN: this machine mounts no filesystem in a file: {error}");
            return;
        }
    };
    let server = server_on(&disk);
    let spot = Spot::new(&server.http(), "power");
    let (mut tree, mut dice, mut sealed) = (Tree::default(), Dice(9), Vec::new());
    let mut lost_something = false;
    // What is carried here is on the disk before it is said to be here.
    let elsewhere = Server::start();
    let carried = Spot::new(&elsewhere.http(), "carried");
    carried.works("echo one > one; mkdir d; for n in $(seq 300); do echo $n > d/$n; done");
    carried.checkpoint(json!({}));
    carried.works("rm d/7; echo two > two");
    let (archive, seen) = (carried.export(), carried.works(MANIFEST));
    for round in 0..rounds {
        // More than a few files in some rounds: they reach the disk in another way.
        if round % 3 == 1 {
            spot.works(&format!(
                "mkdir many{round}; cd many{round}; for n in $(seq 300); do echo $n > $n; done; cd ..; rm -r many{round}; sync a* || true"
            ));
        }
        let commands: Vec<String> = (0..6).map(|_| tree.change(&mut dice)).collect();
        spot.works(&format!("set -e; {}", commands.join("; ")));
        let checkpoint = spot.checkpoint(json!({}));
        assert_eq!(text(&checkpoint, "state"), "durable");
        sealed.push((checkpoint, tree.clone()));
        let come = Spot::import(&server.http(), &archive, &format!("carried-{round}"));
        // Written afterwards, and nowhere but in memory.
        let mut later = tree.clone();
        let commands: Vec<String> = (0..4).map(|_| later.change(&mut dice)).collect();
        spot.works(&format!("set -e; {}; echo unsynced > unsynced", commands.join("; ")));
        let copy = directory.path().join(format!("copy{round}"));
        let pid = Pid::from_raw(server.pid()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        std::fs::copy(&file, &copy).unwrap();
        kill_process(pid, Signal::CONT).unwrap();
        spot.works("rm unsynced");
        come.delete();
        tree = later;

        {
            let after = Disk::mount(&copy, directory.path().join(format!("after{round}"))).unwrap();
            {
                let server = server_on(&after);
                let found = Spot { http: server.http(), id: spot.id.clone() };
                let come = Spot { http: server.http(), id: come.id.clone() };
                assert_eq!(come.works(MANIFEST), seen, "what was carried before the power went in round {round}");
                come.restore(&come.checkpoints()[0]);
                assert_eq!(come.works("cat one d/7; ls"), "one\n7\nd\none\n");
                lost_something |= !found.works("cat unsynced || true").contains("unsynced");
                for (checkpoint, tree) in &sealed {
                    found.restore(checkpoint);
                    assert_eq!(found.works(MANIFEST), tree.manifest(), "{checkpoint} after the power went in round {round}");
                }
                found.delete();
            }
            crate::support::beside::end(&after.at);
        }
        std::fs::remove_file(&copy).unwrap();
    }
    assert!(lost_something, "nothing was ever lost: this test would see nothing");
    spot.delete();
    drop(server);
    crate::support::beside::end(&disk.at);
}
