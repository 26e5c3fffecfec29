//! Checkpoints beside what runs: it stands still for a moment, is whole in the checkpoint, and goes on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Spot;
use super::basics::layers_in;
use super::disk::{Disk, Kind, SHARING};
use super::tree::MANIFEST;
use crate::api::world::{ENVIRONMENTS, at_once, expect, refused, text, walk};
use crate::crashes::{Dice, eventually, proving};
use crate::support::Server;

const SIZE: u64 = 600 << 20;

/// Counts up in one mapped file, then in another, and then in one that is written: whoever sees all three at one moment sees that order. Each
/// page of a mapped file says the same number.
const COUNTS: &str = r#"exec python3 -c '
import mmap, os, time
def mapped(name):
    file = open(name, "w+b")
    file.truncate(64 * 4096)
    return mmap.mmap(file.fileno(), 64 * 4096)
first, second = mapped("first"), mapped("second")
third = os.open("third", os.O_RDWR | os.O_CREAT)
count = 0
while True:
    count += 1
    word = count.to_bytes(8, "little")
    for page in range(64):
        first[page * 4096:page * 4096 + 8] = word
    for page in range(64):
        second[page * 4096:page * 4096 + 8] = word
    os.pwrite(third, word, 0)
    time.sleep(0.0002)
'"#;

/// Prints what each page says, in the order in which they are written.
const COUNTED: &str = r#"python3 -c '
for name in ["first", "second"]:
    data = open(name, "rb").read()
    for page in range(64):
        print(int.from_bytes(data[page * 4096:page * 4096 + 8], "little"))
print(int.from_bytes(open("third", "rb").read(), "little"))
'"#;

fn counted(spot: &Spot) -> Vec<u64> {
    spot.works(COUNTED).lines().map(|line| line.parse().unwrap()).collect()
}

/// Where it counts, and has begun to.
fn counting(server: &Server, name: &str) -> (Spot, String) {
    let spot = Spot::new(&server.http(), name);
    let process = spot.begins(COUNTS);
    eventually("it counts", || (spot.works("test -s third && echo yes || true") == "yes\n").then_some(()));
    (spot, process)
}

fn goes_on(spot: &Spot) {
    let before = counted(spot)[128];
    eventually("it goes on", || (counted(spot)[128] > before).then_some(()));
}

fn freeze(spot: &Spot) -> Value {
    spot.checkpoint(json!({"on_running": "freeze"}))
}

#[test]
fn a_checkpoint_beside_what_runs_is_one_moment_of_it() {
    for disk in SHARING.into_iter().filter_map(|kind| Disk::new(kind, SIZE)) {
        let server = disk.server();
        let (spot, process) = counting(&server, "counting");
        let mut parent = Value::Null;
        for _ in 0..5 {
            let checkpoint = freeze(&spot);
            assert_eq!(text(&checkpoint, "state"), "durable");
            assert_eq!(checkpoint["parent_id"], parent);
            parent = checkpoint["id"].clone();
            goes_on(&spot);
            let fork = spot.fork(json!({"checkpoint_id": checkpoint["id"]})).remove(0);
            let seen = counted(&fork);
            let (most, least) = (seen[0], seen[128]);
            assert!(seen.is_sorted_by(|one, next| one >= next) && most - least <= 1, "not of one moment: {seen:?}");
            fork.delete();
        }
        assert!(spot.runs(&process));
        // The next one of the ordinary kind comes from the last of these, and is what was there then.
        let fork = spot.fork(json!({"on_running": "freeze"})).remove(0);
        assert_eq!(counted(&fork).len(), 129);
        let listed = walk(&spot.http, &spot.path("/checkpoints"), 50);
        let last = spot.checkpoint(json!({"on_running": "stop"}));
        assert_eq!((&last["parent_id"], listed[0]["reason"].as_str()), (&listed[0]["id"], Some("fork")));
        let end = counted(&spot);
        spot.works("rm first second third");
        spot.restore(&last);
        assert_eq!(counted(&spot), end);
        let told = walk(&spot.http, "/v1/projects/default/audit", 100);
        let frozen = told.iter().filter(|act| act["action"] == "environment.checkpoint" && act["details"]["frozen"] == true).count();
        assert_eq!(frozen, 6, "{told:?}");
        fork.delete();
        spot.delete();
        eventually("no layer is left", || (layers_in(server.path()) == 0).then_some(()));
        drop(server);
    }
}

/// What only a layer can hold: names that hide others, directories that hide all of what is below, files with several names, and more.
#[test]
fn whatever_lies_in_a_layer_is_in_its_copy() {
    for disk in SHARING.into_iter().filter_map(|kind| Disk::new(kind, SIZE)) {
        let server = disk.server();
        let spot = Spot::new(&server.http(), "shapes");
        spot.works("mkdir -p a/b c; echo 1 > a/b/f; echo 2 > c/f; echo 3 > gone; ln -s gone link; echo s > shared");
        spot.checkpoint(json!({}));
        spot.works(
            "rm gone; rm -r c; mkdir c; echo new > c/g; echo more >> a/b/f; echo t > two; ln two three; mkfifo pipe; chmod 4755 two; \
             ln -s /etc/passwd outside; mkdir closed; echo x > closed/x; chmod 200 closed/x; touch -d 2001-02-03 two; \
             p=.; for n in $(seq 300); do p=$p/deep; mkdir $p; done; echo bottom > $p/file; python3 -c 'import os; os.setxattr(\"c/g\", \"user.colour\", b\"red\")'; \
             python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; printf '%1000000s' x | tr ' ' y > sparse; truncate -s 10M sparse",
        );
        let shapes = "stat -c '%n %F %a %h %Y %s' two three pipe outside closed/x socket sparse; readlink outside link; \
            python3 -c 'import os; print(os.getxattr(\"c/g\", \"user.colour\"))'; ls -a; ls c; test two -ef three && echo same";
        let process = spot.begins("exec 9<> pipe; exec sleep 600");
        let seen_of = |spot: &Spot| spot.works(&format!("({MANIFEST}) 2> /dev/null | sha256sum"));
        let (seen, shown) = (seen_of(&spot), spot.works(shapes));
        let checkpoint = freeze(&spot);
        assert!(spot.runs(&process));
        spot.works("rm -r deep c; echo later > two");
        let fork = spot.fork(json!({"checkpoint_id": checkpoint["id"]})).remove(0);
        assert_eq!((seen_of(&fork), fork.works(shapes)), (seen, shown));
        fork.works("echo new > gone; rm -r c; mkdir c; rm -r deep");
        fork.checkpoint(json!({}));
        assert_eq!(fork.works("cat gone; ls c; ls -d deep || echo none"), "new\nnone\n");
        fork.delete();
        spot.delete();
        drop(server);
    }
}

#[test]
fn where_no_blocks_are_shared_it_has_to_stop() {
    let Some(disk) = Disk::new(Kind::Ext4, 200 << 20) else { return };
    let server = disk.server();
    let (spot, process) = counting(&server, "plain");
    for path in ["/checkpoints", "/fork"] {
        let error = refused(&spot.http.post(&spot.path(path), json!({"on_running": "freeze"})), 409, "checkpoint_needs_stop");
        assert!(error["suggestion"].as_str().unwrap().contains("on_running: stop"), "{error}");
    }
    goes_on(&spot);
    assert!(spot.runs(&process));
    assert!(walk(&spot.http, &spot.path("/checkpoints"), 50).is_empty());
    eventually("nothing is left of the copy", || (layers_in(server.path()) == 0).then_some(()));
    // Nothing runs: nothing has to stand still.
    expect(&spot.http.post(&spot.path("/stop"), json!({})), 200);
    freeze(&spot);
    spot.delete();
    drop(server);
}

#[test]
fn whoever_is_left_from_before_an_upgrade_is_not_asked() {
    // The last version knows how to stand still.
    let before = format!("STEAD_PLACE_PROTOCOL={}", stead_place::protocol::LAST - 1);
    let mut earlier = Server::builder().through(&["env", &before]).start();
    let directory = earlier.directory();
    let mut spot = Spot::new(&earlier.http(), "upgraded");
    let process = spot.begins("sleep 600");
    earlier.kill();
    let server = Server::builder().on(directory).start();
    spot.http = server.http();
    let error = refused(&spot.http.post(&spot.path("/checkpoints"), json!({"on_running": "freeze"})), 409, "checkpoint_needs_stop");
    assert!(error["suggestion"].as_str().unwrap().contains("on_running: stop"), "{error}");
    assert!(spot.runs(&process));
    spot.delete();
}

#[test]
fn all_who_share_a_sandbox_stand_still() {
    for disk in SHARING.into_iter().filter_map(|kind| Disk::new(kind, SIZE)) {
        let server = disk.server();
        let (spot, process) = counting(&server, "first");
        let sandbox = text(&expect(&spot.http.get(&spot.path("")), 200), "sandbox_id");
        let guest = Spot::with(&spot.http, json!({"name": "guest", "sandbox_id": sandbox}));
        let other = guest.begins(&format!("mkdir guest; cd guest; {COUNTS}"));
        eventually("it counts", || (spot.works("test -s guest/third && echo yes || true") == "yes\n").then_some(()));
        let checkpoint = freeze(&spot);
        assert!(spot.runs(&process) && guest.runs(&other));
        let fork = spot.fork(json!({"checkpoint_id": checkpoint["id"]})).remove(0);
        for directory in [".", "guest"] {
            let seen: Vec<u64> = fork.works(&format!("cd {directory}; {COUNTED}")).lines().map(|line| line.parse().unwrap()).collect();
            assert!(seen.is_sorted_by(|one, next| one >= next) && seen[0] - seen[128] <= 1, "{directory}: {seen:?}");
        }
        goes_on(&spot);
        for spot in [guest, fork, spot] {
            spot.delete();
        }
        drop(server);
    }
}

#[test]
fn a_server_that_is_killed_meanwhile_leaves_everything_moving() {
    for disk in SHARING.into_iter().filter_map(|kind| Disk::new(kind, SIZE)) {
        let mut dice = Dice(5);
        let mut server = disk.server();
        // For as long as somebody holds it, what runs outlives the server.
        let directory = server.directory();
        let (mut spot, process) = counting(&server, "survivor");
        // Enough that a copy takes a while.
        spot.works("mkdir many; cd many; for n in $(seq 2000); do echo $n > $n; done");
        for round in 0..if proving() { 40 } else { 3 } {
            let key = format!("k{round}");
            let send = |http: &crate::support::Http| {
                let headers = [("Idempotency-Key", key.as_str()), ("content-type", "application/json")];
                http.try_send("POST", &spot.path("/checkpoints"), &headers, Some(b"{\"on_running\":\"freeze\"}"))
            };
            std::thread::scope(|scope| {
                let http = server.http();
                let sent = scope.spawn(move || send(&http));
                std::thread::sleep(Duration::from_micros(dice.roll(150_000)));
                server.kill();
                let _ = sent.join().unwrap();
            });
            server = Server::builder().on(Arc::clone(&directory)).with(&["--rate-limit", "0"]).start();
            let reply = send(&server.http()).unwrap();
            assert_eq!(reply.status, 201, "{}", reply.json());
            spot.http = server.http();
            goes_on(&spot);
            assert!(spot.runs(&process));
            let unfinished = std::fs::read_dir(server.path().join("layers")).unwrap().flatten();
            let unfinished: Vec<_> =
                unfinished.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().starts_with('.')).collect();
            assert!(unfinished.is_empty(), "{unfinished:?}");
            let fork = spot.fork(json!({"checkpoint_id": reply.json()["id"]})).remove(0);
            let seen = counted(&fork);
            assert!(seen.is_sorted_by(|one, next| one >= next) && seen[0] - seen[128] <= 1, "{seen:?}");
            assert_eq!(fork.works("ls many | wc -l"), "2000\n");
            fork.delete();
        }
        spot.delete();
        eventually("no layer is left", || (layers_in(server.path()) == 0).then_some(()));
        drop(server);
    }
}

/// Whoever keeps it is killed while everything stands: that is the end of what runs, and of nothing else.
#[test]
fn a_keeper_that_is_killed_meanwhile_leaves_nothing_standing() {
    for disk in SHARING.into_iter().filter_map(|kind| Disk::new(kind, SIZE)) {
        let mut dice = Dice(11);
        let server = disk.server();
        let spot = Spot::new(&server.http(), "kept");
        spot.works("mkdir many; cd many; for n in $(seq 2000); do echo $n > $n; done");
        for _ in 0..if proving() { 40 } else { 4 } {
            let process = spot.begins(COUNTS);
            std::thread::scope(|scope| {
                let sent = scope.spawn(|| spot.http.post(&spot.path("/checkpoints"), json!({"on_running": "freeze"})));
                std::thread::sleep(Duration::from_micros(dice.roll(200_000)));
                // The spawner goes with it, and comes back with the next command.
                crate::support::beside::end(server.path());
                let reply = sent.join().unwrap();
                assert!(reply.status != 500 && (reply.status == 201 || reply.status >= 400), "{} {}", reply.status, reply.json());
            });
            assert_eq!(spot.works("ls many | wc -l"), "2000\n");
            eventually("what ran has ended", || (!spot.runs(&process)).then_some(()));
            freeze(&spot);
        }
        spot.delete();
        eventually("no layer is left", || (layers_in(server.path()) == 0).then_some(()));
        drop(server);
    }
}

#[test]
fn commands_stops_and_the_end_come_one_after_the_other_beside_it() {
    let Some(disk) = SHARING.into_iter().find_map(|kind| Disk::new(kind, SIZE)) else { return };
    let server = disk.server();
    let http = server.http();
    for round in 0..4 {
        let (spot, _) = counting(&server, &format!("crowd-{round}"));
        let replies = at_once(12, |worker| match worker % 4 {
            0 => http.post(&spot.path("/exec"), json!({"command": ["sh", "-c", format!("echo {worker} > file-{worker}")]})),
            1 => http.post(&spot.path("/processes"), json!({"argv": ["sleep", "600"]})),
            2 => http.post(&spot.path("/checkpoints"), json!({"on_running": "freeze"})),
            _ if round % 2 == 0 => http.post(&spot.path("/stop"), json!({})),
            _ => http.send("PUT", &spot.path(&format!("/files?path=put-{worker}")), &[], Some(b"put")),
        });
        for reply in &replies {
            assert!(reply.status < 300 || reply.status == 409, "{} {}", reply.status, String::from_utf8_lossy(&reply.body));
        }
        for checkpoint in replies.iter().filter(|reply| reply.status == 201 && reply.json()["reason"] == "requested") {
            let fork = spot.fork(json!({"checkpoint_id": checkpoint.json()["id"]})).remove(0);
            let seen = counted(&fork);
            assert!(seen.is_sorted_by(|one, next| one >= next) && seen[0] - seen[128] <= 1, "{seen:?}");
            fork.delete();
        }
        let replies = at_once(6, |worker| match worker {
            0 => http.delete(&spot.path("")),
            _ => http.post(&spot.path("/checkpoints"), json!({"on_running": "freeze"})),
        });
        assert_eq!(replies[0].status, 200);
        for reply in &replies[1..] {
            assert!([201, 404, 409].contains(&reply.status), "{} {}", reply.status, reply.json());
        }
        assert!(["destroying", "destroyed"].contains(&http.get(&format!("{ENVIRONMENTS}/{}", spot.id)).json()["status"].as_str().unwrap()));
    }
    eventually("no layer is left", || (layers_in(server.path()) == 0).then_some(()));
    drop(server);
}
