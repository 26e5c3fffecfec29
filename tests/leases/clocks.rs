//! Which time counts: the store's, read when the row is locked, and only within one start of the machine. A clock that is wrong may end a
//! lease early; it revives none, and nobody passes the barrier because of it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::barriers::{ZOO, quick, stands_still};
use super::{Scene, TICKETS, act, until};
use crate::api::world::{expect, on_postgres, refused, text};
use crate::support::{Server, beside};

/// How long the row is kept from everybody else; longer than the lease lasts.
const KEPT: u64 = 4;

/// Keeps the store's one writer out for a while, and says when it does.
const KEEP_SQLITE: &str = r#"
import sqlite3, sys, time
store = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
store.execute("BEGIN IMMEDIATE")
print("kept", flush=True)
time.sleep(float(sys.argv[2]))
store.execute("ROLLBACK")
"#;

/// A renewal that is sent in time, and has to wait for the row until the lease is over. None when this machine was too slow to be in time.
fn renew_late(scene: &Scene, keep: impl FnOnce() -> Box<dyn FnOnce()>) -> Option<crate::support::Reply> {
    let begun = Instant::now();
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token", "lease_ttl": "2s" }));
    let let_go = keep();
    let in_time = begun.elapsed() < Duration::from_millis(1800);
    let reply = act(&scene.ann, &lease, "renew", Some(&text(&lease, "token")), json!({}));
    let_go();
    if reply.status == 200 {
        // It was not kept waiting for long enough to be worth anything.
        assert!(begun.elapsed() < Duration::from_secs(2), "an expired lease was revived: {}", String::from_utf8_lossy(&reply.body));
    }
    let _ = act(&scene.owner, &lease, "release", None, json!({}));
    in_time.then_some(reply)
}

#[track_caller]
fn is_lost(mut attempt: impl FnMut() -> Option<crate::support::Reply>) {
    for _ in 0..10 {
        if let Some(reply) = attempt() {
            refused(&reply, 410, "lease_lost");
            return;
        }
    }
    panic!("this machine is too slow to renew anything in time");
}

#[test]
fn a_renewal_that_waited_for_the_row_past_the_end_revives_nothing_on_postgresql() {
    on_postgres(&[], |server, postgres| {
        let scene = Scene::new(server, quick());
        let sandbox = text(&expect(&scene.owner.get(&scene.path("")), 200), "sandbox_id");
        is_lost(|| {
            std::thread::scope(|scope| {
                let (postgres, sandbox) = (&postgres, &sandbox);
                renew_late(&scene, || {
                    scope.spawn(move || {
                        postgres.sql(&format!(
                            "BEGIN; SELECT 1 FROM sandboxes WHERE id = '{sandbox}' FOR UPDATE; SELECT pg_sleep({KEPT}); COMMIT"
                        ))
                    });
                    until("the lock", || postgres.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").contains('1'));
                    Box::new(|| {})
                })
            })
        });
    });
}

#[test]
fn a_renewal_that_waited_for_the_store_past_the_end_revives_nothing_on_sqlite() {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    is_lost(|| {
        renew_late(&scene, || {
            let mut keeper = Command::new("python3")
                .args(["-c", KEEP_SQLITE])
                .arg(server.path().join("stead.db"))
                .arg(KEPT.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(keeper.stdout.take().unwrap()), &mut said).unwrap();
            assert_eq!(said, "kept\n");
            Box::new(move || assert!(keeper.wait().unwrap().success()))
        })
    });
}

/// The same scene at a server that was started again, through another program.
fn again(scene: Scene, mut server: Server, wrapper: &[&str]) -> (Scene, Server) {
    let directory = server.directory();
    server.kill();
    let server = super::hand_overs::start_again(&directory, &wrapper.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let Scene { ann, ben, environment, .. } = scene;
    (Scene { owner: server.http(), ann: ann.at(&server.address), ben: ben.at(&server.address), environment }, server)
}

/// Ann holds it and leaves something that writes; Ben waits.
fn held() -> (Scene, Server, Value, String) {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token", "lease_ttl": "1h" }));
    expect(&scene.shell(&scene.ann, Some(&text(&lease, "token")), ZOO), 200);
    let ticket = text(&expect(&scene.ask(&scene.ben, json!({ "wait": "2h", "lease_ttl": "1h" })), 202)["ticket"], "id");
    (scene, server, lease, ticket)
}

/// Ann's lease is over though nobody ended it, and Ben is let in behind the barrier.
#[track_caller]
fn is_taken_over(scene: &Scene, lease: &Value, ticket: &str) -> Value {
    let granted = expect(&scene.ben.get(&format!("{TICKETS}/{ticket}?wait=50s")), 200)["lease"].clone();
    assert_eq!((&granted["previous"]["id"], &granted["previous"]["ended"]), (&lease["id"], &json!("expired")));
    assert_eq!(granted["previous"]["clean"], false);
    refused(&act(&scene.ann, lease, "renew", Some(&text(lease, "token")), json!({})), 410, "lease_lost");
    granted
}

/// Another start of the machine has ended what ran on it, and what was held on it. Nothing can be started here afterwards: a /proc of which
/// a part is covered is not given to anybody.
#[test]
fn another_start_of_the_machine_ends_what_was_held_on_it_and_keeps_the_queue() {
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other.path(), "01234567-89ab-4cde-8f01-23456789abcd\n").unwrap();
    let script = format!("mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$@\"", other.path().display());
    let wrapper = ["unshare", "--mount", "--fork", "--kill-child", "sh", "-c", &script, "sh"];
    let possible = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output().is_ok_and(|output| output.status.success());
    if !possible {
        eprintln!("not run: nobody can pretend another start of this machine here");
        return;
    }
    let (scene, mut server, lease, ticket) = held();
    server.kill();
    beside::end(server.path());
    let (scene, _server) = again(scene, server, &wrapper);
    let granted = is_taken_over(&scene, &lease, &ticket);
    let left = granted["expires_in_ms"].as_u64().unwrap();
    assert!(left <= 3_600_000 && left > 3_000_000, "its whole time, counted anew: {left}");
}

#[test]
fn a_clock_that_jumps_ends_a_lease_early_and_skips_no_barrier() {
    if !super::hand_overs::can_jump() {
        eprintln!("not run: nobody can have another time of the machine here");
        return;
    }
    let ahead = super::hand_overs::jumped(3_700);
    let ahead: Vec<&str> = ahead.iter().map(String::as_str).collect();
    let (scene, server, lease, ticket) = held();
    // Forwards: an hour has passed that nobody lived through.
    let (scene, server) = again(scene, server, &ahead);
    let second = is_taken_over(&scene, &lease, &ticket);
    stands_still(&scene, &scene.ben, None);
    expect(&scene.shell(&scene.ben, None, ZOO), 200);
    let ticket = text(&expect(&scene.ask(&scene.ann, json!({ "wait": "2h" })), 202)["ticket"], "id");
    // And back: what was to last for an hour would last for two.
    let (scene, _server) = again(scene, server, &[]);
    let granted = expect(&scene.ann.get(&format!("{TICKETS}/{ticket}?wait=50s")), 200)["lease"].clone();
    assert_eq!((&granted["previous"]["id"], &granted["previous"]["ended"]), (&second["id"], &json!("expired")));
    stands_still(&scene, &scene.ann, None);
}
