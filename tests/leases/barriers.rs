//! Nobody is let in before what the holder before left is gone.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Scene, TICKETS, act, until};
use crate::api::world::{expect, refused, text};
use crate::support::{Http, Server};

/// Leaves something that writes for ever: it has left its session and its parent, ignores signals, and one of them stands still.
pub const ZOO: &str = r#"
    for number in 1 2; do
        setsid sh -c 'trap "" TERM INT HUP; while :; do echo x >> /workspace/zoo; sleep 0.02; done' >/dev/null 2>&1 &
    done
    (setsid sh -c 'kill -STOP $$; while :; do echo y >> /workspace/zoo; sleep 0.02; done' >/dev/null 2>&1 &)
    until [ -s /workspace/zoo ]; do sleep 0.01; done
"#;

fn size(scene: &Scene, who: &Http, token: Option<&str>) -> u64 {
    scene.printed(who, token, "wc -c < zoo").trim().parse().unwrap()
}

/// What is there does not grow any more.
#[track_caller]
pub fn stands_still(scene: &Scene, who: &Http, token: Option<&str>) {
    let before = size(scene, who, token);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(size(scene, who, token), before, "something still writes");
}

pub fn quick() -> Value {
    json!({ "lease": { "lock_delay": "0s" } })
}

#[test]
fn what_commands_left_behind_holds_an_implicit_lease_and_ends_with_it() {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    expect(&scene.shell(&scene.ann, None, ZOO), 200);
    // No process of any record runs, and still nobody else is let in.
    let details = refused(&scene.exec(&scene.ben, None, &["true"]), 409, "lease_held");
    assert_eq!((&details["holder"], &details["implicit"]), (&json!("ann"), &json!(true)));
    let ticket = text(&expect(&scene.ask(&scene.ben, json!({ "wait": "5m", "bind": "token" })), 202)["ticket"], "id");
    let lease = json!({ "id": details["lease_id"] });
    expect(&act(&scene.owner, &lease, "break", None, json!({ "reason": "it never ends" })), 200);
    let granted = expect(&scene.ben.get(&format!("{TICKETS}/{ticket}?wait=50s")), 200)["lease"].clone();
    let token = text(&granted, "token");
    assert_eq!((&granted["previous"]["ended"], &granted["previous"]["clean"]), (&json!("revoked"), &json!(false)));
    stands_still(&scene, &scene.ben, Some(&token));
}

#[test]
fn a_release_stops_what_runs_before_anybody_else_is_let_in() {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
    let token = text(&lease, "token");
    expect(&scene.shell(&scene.ann, Some(&token), ZOO), 200);
    let body = json!({ "argv": ["sh", "-c", "trap '' TERM; while :; do echo z >> zoo; sleep 0.02; done"] }).to_string();
    let process = expect(&scene.ann.send("POST", &scene.path("/processes"), &[("Stead-Lease", &token)], Some(body.as_bytes())), 201);
    let released = scene.release(&scene.ann, &lease);
    assert_eq!((&released["status"], &released["clean"]), (&json!("released"), &json!(true)));
    let ended = expect(&scene.ann.get(&scene.path(&format!("/processes/{}", text(&process, "id")))), 200);
    assert_eq!(ended["exit"]["cause"], "fenced");
    stands_still(&scene, &scene.ben, None);
}

#[test]
fn a_lease_that_expires_is_taken_over_through_the_barrier() {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token", "lease_ttl": "2s" }));
    let token = text(&lease, "token");
    expect(&scene.shell(&scene.ann, Some(&token), ZOO), 200);
    let ticket = text(&expect(&scene.ask(&scene.ben, json!({ "wait": "5m" })), 202)["ticket"], "id");
    let granted = expect(&scene.ben.get(&format!("{TICKETS}/{ticket}?wait=50s")), 200)["lease"].clone();
    assert_eq!((&granted["previous"]["ended"], &granted["previous"]["clean"]), (&json!("expired"), &json!(false)));
    refused(&act(&scene.ann, &lease, "renew", Some(&token), json!({})), 410, "lease_lost");
    for refusal in [
        scene.exec(&scene.ann, Some(&token), &["true"]),
        scene.ann.send("PUT", &scene.path("/files?path=late"), &[("Stead-Lease", &token)], Some(b"late")),
        scene.ann.send("POST", &scene.path("/checkpoints"), &[("Stead-Lease", &token)], Some(b"{}")),
    ] {
        refused(&refusal, 412, "fence_stale");
    }
    stands_still(&scene, &scene.ben, None);
    assert_eq!(scene.printed(&scene.ben, None, "ls late 2>/dev/null || echo none"), "none\n");
}

/// An upload that is under way is its holder's doing: whoever comes next finds nothing of it later.
#[test]
fn a_file_that_is_being_written_ends_with_its_lease() {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
    let token = text(&lease, "token");
    expect(&scene.exec(&scene.ann, Some(&token), &["true"]), 200);
    let mut upload = scene.ann.begin("PUT", &scene.path("/files?path=big"), &[("Stead-Lease", &token), ("Content-Length", "1000000")]);
    upload.send(&[b'a'; 1000]);
    until("the upload's beginning", || {
        let audit = expect(&scene.owner.get("/v1/projects/default/audit?action=environment.files.write"), 200);
        !audit["items"].as_array().unwrap().is_empty()
    });
    expect(&act(&scene.owner, &lease, "break", None, json!({ "reason": "now" })), 200);
    let next = scene.acquire(&scene.ben, json!({}));
    assert_eq!(next["fence"], 2);
    upload.try_send(&[b'a'; 999_000]);
    drop(upload);
    assert_eq!(scene.printed(&scene.ben, None, "ls -A | wc -l"), "0\n", "neither the file nor a part of it");
}

#[test]
fn a_server_that_is_killed_amid_it_all_lets_nobody_in_too_early() {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token", "lease_ttl": "2s" }));
    expect(&scene.shell(&scene.ann, Some(&text(&lease, "token")), ZOO), 200);
    let ticket = text(&expect(&scene.ask(&scene.ben, json!({ "wait": "5m" })), 202)["ticket"], "id");
    let (ann, ben, directory) = (scene.ann.clone(), scene.ben.clone(), server.directory());
    let mut server = server;
    let mut environment = scene.environment;
    for _ in 0..3 {
        server.kill();
        server = Server::builder().on(directory.clone()).start();
        let scene = Scene { owner: server.http(), ann: ann.at(&server.address), ben: ben.at(&server.address), environment };
        let _ = scene.ben.get(&format!("{TICKETS}/{ticket}?wait=1s"));
        environment = scene.environment;
    }
    let scene = Scene { owner: server.http(), ann: ann.at(&server.address), ben: ben.at(&server.address), environment };
    expect(&scene.ben.get(&format!("{TICKETS}/{ticket}?wait=50s")), 200);
    stands_still(&scene, &scene.ben, None);
}

/// The keeper of the environment stands still: that is not to be gone.
#[test]
fn a_steward_that_does_not_answer_is_never_taken_for_dead() {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
    expect(&scene.shell(&scene.ann, Some(&text(&lease, "token")), ZOO), 200);
    let stewards = crate::support::beside::stewards(server.path());
    assert_eq!(stewards.len(), 1);
    rustix::process::kill_process(stewards[0], rustix::process::Signal::STOP).unwrap();
    expect(&act(&scene.owner, &lease, "break", None, json!({ "reason": "it hangs" })), 200);
    let ticket = expect(&scene.ask(&scene.ben, json!({ "wait": "5s" })), 202)["ticket"].clone();
    assert_eq!((&ticket["status"], &ticket["stage"]), (&json!("granted"), &json!("fencing")), "{ticket}");
    let id = text(&ticket, "id");
    rustix::process::kill_process(stewards[0], rustix::process::Signal::CONT).unwrap();
    until("the barrier", || {
        let reply = scene.ben.get(&format!("{TICKETS}/{id}?wait=10s"));
        reply.status == 200 && reply.json()["lease"]["stage"] == "active"
    });
    stands_still(&scene, &scene.ben, None);
}

/// A backup puts everybody out, and whoever was given something since then is behind the next one.
#[test]
fn a_restored_backup_gives_no_fence_twice() {
    let server = Server::start();
    let scene = Scene::new(&server, quick());
    expect(&scene.exec(&scene.ann, None, &["true"]), 200);
    let backup = server.path().with_extension("backup");
    assert!(server.command(&["backup", backup.to_str().unwrap()]).output().unwrap().status.success());
    let since = scene.acquire(&scene.ben, json!({ "bind": "token" }));
    expect(&scene.shell(&scene.ben, Some(&text(&since, "token")), ZOO), 200);
    let (ann, ben, directory) = (scene.ann.clone(), scene.ben.clone(), server.directory());
    let mut server = server;
    server.kill();
    let restored = server.command(&["restore", "--replace", backup.to_str().unwrap()]).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let _ = std::fs::remove_file(&backup);
    let server = Server::builder().on(directory).start();
    let scene = Scene { owner: server.http(), ann: ann.at(&server.address), ben: ben.at(&server.address), environment: scene.environment };
    refused(&scene.exec(&scene.ben, Some(&text(&since, "token")), &["true"]), 412, "fence_stale");
    let lease = scene.acquire(&scene.ann, json!({}));
    assert!(lease["fence"].as_u64().unwrap() > since["fence"].as_u64().unwrap());
    stands_still(&scene, &scene.ann, None);
}

/// The store itself was put back, and nobody told it: the place knows better.
#[test]
fn a_store_that_is_put_back_unnoticed_is_healed_by_its_places() {
    let mut server = Server::start();
    let scene = Scene::new(&server, quick());
    expect(&scene.exec(&scene.ann, None, &["true"]), 200);
    let (ann, ben, directory) = (scene.ann.clone(), scene.ben.clone(), server.directory());
    server.kill();
    let copy = tempfile::tempdir().unwrap();
    let store = ["stead.db", "stead.db-wal", "stead.db-shm"];
    for name in store {
        let _ = std::fs::copy(directory.path().join(name), copy.path().join(name));
    }
    let mut server = Server::builder().on(directory.clone()).start();
    let scene = Scene { owner: server.http(), ann: ann.at(&server.address), ben: ben.at(&server.address), environment: scene.environment };
    // Fences that the older store knows nothing of, and one that runs under the last of them.
    for _ in 0..3 {
        let lease = scene.acquire(&scene.ben, json!({ "bind": "token" }));
        expect(&act(&scene.owner, &lease, "break", None, json!({ "reason": "next" })), 200);
    }
    let last = scene.acquire(&scene.ben, json!({ "bind": "token" }));
    expect(&scene.shell(&scene.ben, Some(&text(&last, "token")), ZOO), 200);
    server.kill();
    for name in store {
        let _ = std::fs::remove_file(directory.path().join(name));
        let _ = std::fs::copy(copy.path().join(name), directory.path().join(name));
    }
    let server = Server::builder().on(directory).start();
    let scene = Scene { owner: server.http(), ann: ann.at(&server.address), ben: ben.at(&server.address), environment: scene.environment };
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
    let token = text(&lease, "token");
    stands_still(&scene, &scene.ann, Some(&token));
    let now = scene.lease(&text(&lease, "id"));
    assert!(now["fence"].as_u64().unwrap() > last["fence"].as_u64().unwrap(), "{now} after {last}");
}

/// Where the definition says so, whoever does not answer is ended by force, and that is made sure of.
#[test]
fn a_steward_that_does_not_answer_is_ended_where_the_definition_says_so() {
    for (policy, expected) in [("destroy", "changed\n"), ("fork_from_checkpoint", "sealed\n")] {
        let server = Server::start();
        let scene = Scene::new(&server, json!({ "lease": { "lock_delay": "0s", "unreachable": policy } }));
        let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
        let token = text(&lease, "token");
        expect(&scene.shell(&scene.ann, Some(&token), "echo sealed > f"), 200);
        expect(&scene.ann.send("POST", &scene.path("/checkpoints"), &[("Stead-Lease", &token)], Some(b"{}")), 201);
        expect(&scene.shell(&scene.ann, Some(&token), "echo changed > f"), 200);
        expect(&scene.shell(&scene.ann, Some(&token), ZOO), 200);
        let stewards = crate::support::beside::stewards(server.path());
        rustix::process::kill_process(stewards[0], rustix::process::Signal::STOP).unwrap();
        expect(&act(&scene.owner, &lease, "break", None, json!({ "reason": "it hangs" })), 200);
        scene.acquire(&scene.ben, json!({}));
        assert_eq!(scene.printed(&scene.ben, None, "cat f"), expected);
        if policy == "destroy" {
            stands_still(&scene, &scene.ben, None);
        } else {
            let kept = expect(&scene.owner.get(&scene.path("/checkpoints")), 200);
            assert_eq!(kept["items"][0]["reason"], "before_takeover", "what was there is not lost");
        }
    }
}
