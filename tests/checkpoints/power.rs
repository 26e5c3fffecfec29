//! The power goes: what was written and not synced is lost, and every checkpoint that was acknowledged as durable is whole.
//!
//! The data directory lies on a filesystem of its own in a file. A copy of that file, taken at a moment, holds what has reached the disk, and
//! nothing of what is only in memory. The copy is mounted, as after the power came back, and another server finds what is there.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::Spot;
use super::disk::{Disk, Kind};
use super::tree::{MANIFEST, Tree};
use crate::api::world::text;
use crate::crashes::{Dice, proving};
use crate::support::Server;

/// Its own writing back is put off, so that nothing reaches the disk but what is synced.
const COMMIT: &str = ",commit=600";

#[test]
fn a_durable_checkpoint_survives_the_loss_of_everything_that_was_not_synced() {
    let rounds = if proving() { 25 } else { 3 };
    let directory = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let file = directory.path().join("disk");
    let disk = match Disk::make(Kind::Ext4, &file, 96 << 20).and_then(|()| Disk::mount(&file, directory.path().join("before"), COMMIT)) {
        Ok(disk) => disk,
        Err(error) => {
            eprintln!("NOT RUN: this machine mounts no filesystem in a file: {error}");
            return;
        }
    };
    let server = disk.server();
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
            let after = Disk::mount(&copy, directory.path().join(format!("after{round}")), COMMIT).unwrap();
            {
                let server = after.server();
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
        }
        std::fs::remove_file(&copy).unwrap();
    }
    assert!(lost_something, "nothing was ever lost: this test would see nothing");
    spot.delete();
    drop(server);
}
