//! What each call does, and what it refuses.

use std::path::Path;

use serde_json::json;

use super::Spot;
use crate::api::world::{at_once, expect, refused, text, walk};
use crate::crashes::eventually;
use crate::support::Server;

pub fn layers_in(data_dir: &Path) -> usize {
    std::fs::read_dir(data_dir.join("layers")).unwrap().count()
}

#[test]
fn a_checkpoint_is_what_was_there_whatever_happens_afterwards() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "web");
    spot.works("echo one > a; mkdir d; echo two > d/b; ln -s a link; chmod 640 a; printf '' > empty");
    let first = spot.checkpoint(json!({"name": "first"}));
    assert_eq!((text(&first, "state"), text(&first, "name"), first.get("parent_id")), ("durable".into(), "first".into(), None));
    assert!(first["durable_at"].is_string() && first["created_at"].is_string());
    spot.works("echo changed > a; rm -r d link; mkdir d; echo other > d/c");
    let second = spot.checkpoint(json!({"wait": "sealed"}));
    assert_eq!(second["parent_id"], first["id"]);
    assert_eq!(spot.works("cat a; ls d; ls"), "changed\nc\na\nd\nempty\n");
    // The second one becomes durable by itself.
    let path = spot.path(&format!("/checkpoints/{}", text(&second, "id")));
    eventually("it is on the disk", || (text(&expect(&spot.http.get(&path), 200), "state") == "durable").then_some(()));
    spot.restore(&first);
    assert_eq!(spot.works("cat a d/b; readlink link; stat -c %a a; ls"), "one\ntwo\na\n640\na\nd\nempty\nlink\n");
    spot.restore(&second);
    assert_eq!(spot.works("cat a; ls d"), "changed\nc\n");
    let listed = walk(&spot.http, &spot.path("/checkpoints"), 1);
    assert_eq!(listed.iter().map(|row| row["id"].clone()).collect::<Vec<_>>(), [second["id"].clone(), first["id"].clone()]);
    spot.delete();
    eventually("nothing of it is left", || (layers_in(server.path()) == 0).then_some(()));
}

#[test]
fn what_runs_is_in_the_way_or_is_stopped() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "busy");
    spot.works("echo before > file");
    let started = expect(&spot.http.post(&spot.path("/processes"), json!({"argv": ["sleep", "600"]})), 201);
    for body in [json!({}), json!({"on_running": "busy"})] {
        let error = refused(&spot.http.post(&spot.path("/checkpoints"), body), 409, "environment_busy");
        assert_eq!(error["processes"], 1, "{error}");
    }
    refused(&spot.http.post(&spot.path("/fork"), json!({})), 409, "environment_busy");
    let process = spot.path(&format!("/processes/{}", text(&started, "id")));
    assert_eq!(text(&expect(&spot.http.get(&process), 200), "status"), "running");
    let checkpoint = spot.checkpoint(json!({"on_running": "stop"}));
    assert_eq!(text(&expect(&spot.http.get(&process), 200), "status"), "exited");
    // A restore stops what runs, unless it is told not to.
    expect(&spot.http.post(&spot.path("/processes"), json!({"argv": ["sleep", "600"]})), 201);
    let restore = spot.path(&format!("/checkpoints/{}/restore", text(&checkpoint, "id")));
    refused(&spot.http.post(&restore, json!({"on_running": "busy"})), 409, "environment_busy");
    expect(&spot.http.post(&restore, json!({})), 200);
    assert_eq!(spot.works("cat file"), "before\n");
    spot.delete();
}

#[test]
fn what_is_saved_before_a_restore_can_be_gone_back_to() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "saved");
    spot.works("echo one > file");
    let first = spot.checkpoint(json!({}));
    spot.works("echo two > file");
    let path = spot.path(&format!("/checkpoints/{}/restore", text(&first, "id")));
    expect(&spot.http.post(&path, json!({"save": true})), 200);
    assert_eq!(spot.works("cat file"), "one\n");
    let listed = walk(&spot.http, &spot.path("/checkpoints"), 50);
    assert_eq!(text(&listed[0], "reason"), "before_restore");
    spot.restore(&listed[0]);
    assert_eq!(spot.works("cat file"), "two\n");
    spot.delete();
}

#[test]
fn forks_share_nothing_but_what_they_began_with() {
    let server = Server::start();
    let http = server.http();
    let spot = Spot::new(&http, "root");
    spot.works("echo begin > file; mkdir kept; echo kept > kept/file");
    let checkpoint = spot.checkpoint(json!({"name": "base"}));
    spot.works("echo later > file");
    let forks = spot.fork(json!({"checkpoint_id": checkpoint["id"], "name": "try", "count": 3}));
    for (number, fork) in forks.iter().enumerate() {
        assert_eq!(fork.works("cat file; hostname"), format!("begin\ntry-{}\n", number + 1));
        fork.works(&format!("echo {number} > file"));
    }
    for (number, fork) in forks.iter().enumerate() {
        assert_eq!(fork.works("cat file kept/file"), format!("{number}\nkept\n"));
        let record = expect(&http.get(&fork.path("")), 200);
        assert_eq!(
            (record["contains_secrets"].clone(), record["runtime"]["checkpoint_id"].clone()),
            (json!(false), checkpoint["id"].clone())
        );
    }
    assert_eq!(spot.works("cat file"), "later\n");
    // What is there now, without a checkpoint; twice without anything between makes no second one.
    let now = spot.fork(json!({}));
    assert_eq!(now[0].works("cat file"), "later\n");
    spot.fork(json!({"name": "again"}));
    assert_eq!(walk(&http, &spot.path("/checkpoints"), 50).len(), 2);
    refused(&http.post(&spot.path("/fork"), json!({"name": "again"})), 409, "already_exists");
    for count in [0, 101] {
        refused(&http.post(&spot.path("/fork"), json!({"count": count})), 400, "invalid_field");
    }
    // The winner's files become the first one's.
    forks[1].works("echo winner > result");
    let won = forks[1].checkpoint(json!({}));
    spot.restore(&won);
    assert_eq!(spot.works("cat file result"), "1\nwinner\n");
}

#[test]
fn a_hundred_forks_outlive_the_parent_and_its_checkpoint() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "parent");
    spot.works("for n in $(seq 50); do echo $n > f$n; done");
    let checkpoint = spot.checkpoint(json!({}));
    let forks = spot.fork(json!({"checkpoint_id": checkpoint["id"], "count": 100}));
    assert_eq!(forks.len(), 100);
    spot.delete();
    refused(&spot.http.get(&spot.path(&format!("/checkpoints/{}", text(&checkpoint, "id")))), 404, "not_found");
    for chunk in forks.chunks(10) {
        at_once(chunk.len(), |at| {
            let fork = &chunk[at];
            assert_eq!(fork.works("cat f* | sort -n | tail -1; ls | wc -l"), "50\n50\n");
            fork.works("rm f1; echo own > f2");
            assert_eq!(fork.works("ls | wc -l; cat f2"), "49\nown\n");
            expect(&fork.http.post(&fork.path("/stop"), json!({})), 200);
        });
    }
    for chunk in forks.chunks(20) {
        at_once(chunk.len(), |at| chunk[at].delete());
    }
    eventually("no layer is left", || (layers_in(server.path()) == 0).then_some(()));
}

#[test]
fn what_cannot_be_sealed_says_why() {
    let server = Server::start();
    let http = server.http();
    let cow = Spot::with(&http, json!({"name": "cow", "spec": {"sandbox": {"network_access": "disabled", "workspace_access": "cow"}}}));
    cow.works("echo beside > file");
    let error = refused(&http.post(&cow.path("/checkpoints"), json!({})), 409, "checkpoint_unsupported");
    assert!(error["suggestion"].as_str().unwrap().contains("stead env keep"), "{error}");
    expect(&http.post(&cow.path("/changes/keep"), json!({})), 200);
    cow.checkpoint(json!({}));
    refused(&http.post(&cow.path("/checkpoints"), json!({"name": "../x"})), 400, "invalid_field");
    refused(&http.post(&cow.path("/checkpoints"), json!({"wait": "forever"})), 400, "invalid_field");
    for id in ["ckp_00000000000070008000000000000000", "../../etc", "ckp_x"] {
        let path = cow.path(&format!("/checkpoints/{}", id.replace('/', "%2f")));
        assert_eq!(http.get(&path).status, 404);
        assert_eq!(http.delete(&path).status, 404);
        assert_eq!(http.post(&format!("{path}/restore"), json!({})).status, 404);
    }
    cow.delete();
}

#[test]
fn a_repeated_request_makes_one_checkpoint_and_one_set_of_forks() {
    let server = Server::start();
    let http = server.http();
    let spot = Spot::new(&http, "once");
    spot.works("echo x > file");
    let send = |path: &str, key: &str, body: &[u8]| {
        let reply = http.send("POST", &spot.path(path), &[("Idempotency-Key", key), ("content-type", "application/json")], Some(body));
        assert!(reply.status < 300, "{}", reply.json());
        reply.json()
    };
    let first = send("/checkpoints", "a", b"{\"name\":\"k\"}");
    assert_eq!(send("/checkpoints", "a", b"{\"name\":\"k\"}"), first);
    let forks = send("/fork", "b", b"{\"count\":2}");
    assert_eq!(send("/fork", "b", b"{\"count\":2}"), forks);
    let restore = format!("/checkpoints/{}/restore", text(&first, "id"));
    send(&restore, "c", b"{}");
    spot.works("echo y > file");
    // A repetition does not take away what was written since.
    send(&restore, "c", b"{}");
    assert_eq!(spot.works("cat file"), "y\n");
    assert_eq!(walk(&http, &spot.path("/checkpoints"), 50).len(), 1);
}

#[test]
fn commands_checkpoints_stops_and_the_end_come_one_after_the_other() {
    let server = Server::start();
    let http = server.http();
    for round in 0..4 {
        let spot = Spot::new(&http, &format!("crowd-{round}"));
        spot.works("echo 0 > counter");
        let replies = at_once(12, |worker| match worker % 4 {
            0 | 1 => http.post(&spot.path("/exec"), json!({"command": ["sh", "-c", format!("echo {worker} > file-{worker}")]})),
            2 => http.post(&spot.path("/checkpoints"), json!({"on_running": "stop"})),
            _ => http.post(&spot.path("/stop"), json!({})),
        });
        for reply in &replies {
            assert!(reply.status < 300 || reply.status == 409, "{} {}", reply.status, reply.json());
        }
        // Whoever was told that it ran to its end finds its file.
        for (worker, reply) in replies.iter().enumerate().filter(|(worker, _)| worker % 4 < 2) {
            if reply.status == 200 && reply.json()["exit_code"] == 0 {
                assert_eq!(spot.works(&format!("cat file-{worker}")), format!("{worker}\n"));
            }
        }
        for checkpoint in replies.iter().filter(|reply| reply.status == 201 && reply.json()["state"] == "durable") {
            spot.restore(&checkpoint.json());
            assert_eq!(spot.works("cat counter"), "0\n");
        }
        let replies = at_once(6, |worker| match worker {
            0 => http.delete(&spot.path("")),
            1..=3 => http.post(&spot.path("/checkpoints"), json!({"on_running": "stop"})),
            _ => http.post(&spot.path("/fork"), json!({"on_running": "stop", "name": format!("late-{round}-{worker}")})),
        });
        assert_eq!(replies[0].status, 200);
        for reply in &replies[1..] {
            assert!([201, 404, 409].contains(&reply.status), "{} {}", reply.status, reply.json());
            for fork in reply.json()["items"].as_array().into_iter().flatten() {
                let fork = Spot { http: http.clone(), id: text(fork, "id") };
                assert_eq!(fork.works("cat counter"), "0\n");
                fork.delete();
            }
        }
    }
    eventually("no layer is left", || (layers_in(server.path()) == 0).then_some(()));
}

#[test]
fn what_differs_is_told_between_two_checkpoints_and_against_now() {
    let server = Server::start();
    let http = server.http();
    let spot = Spot::new(&http, "differs");
    spot.works("printf '1\\n2\\n3\\n' > text; echo gone > gone; mkdir deep; echo x > deep/file; head -c 100000 /dev/zero > zeros");
    let first = spot.checkpoint(json!({}));
    spot.works("printf '1\\ntwo\\n3\\n' > text; rm gone; mv deep moved; printf x >> zeros");
    let second = spot.checkpoint(json!({}));
    spot.works("chmod 755 text; ln -s text link");
    let diff = |from: &serde_json::Value, query: &str| {
        let path = spot.path(&format!("/checkpoints/{}/diff{query}", text(from, "id")));
        let items = walk(&http, &path, 2);
        items.iter().map(|item| format!("{} {}", text(item, "kind"), text(item, "path"))).collect::<Vec<_>>()
    };
    let to = format!("?to={}", text(&second, "id"));
    let expected =
        ["deleted deep", "deleted deep/file", "deleted gone", "added moved", "added moved/file", "modified text", "modified zeros"];
    assert_eq!(diff(&first, &to), expected);
    assert_eq!(diff(&second, ""), ["added link", "modified text"]);
    assert_eq!(diff(&second, &to), [""; 0]);
    let one = expect(&http.get(&spot.path(&format!("/checkpoints/{}/diff{to}&path=text", text(&first, "id")))), 200);
    assert!(one["items"][0]["unified"].as_str().unwrap().contains("-2\n+two\n"), "{one}");
    let all = expect(&http.get(&spot.path(&format!("/checkpoints/{}/diff{to}&text=true", text(&first, "id")))), 200);
    let contents: Vec<_> = all["items"].as_array().unwrap().iter().map(|item| item["content"].clone()).collect();
    let null = serde_json::Value::Null;
    assert_eq!(contents, [null.clone(), json!("text"), json!("text"), null, json!("text"), json!("text"), json!("binary")]);
    refused(&http.get(&spot.path(&format!("/checkpoints/{}/diff?path=../x", text(&first, "id")))), 400, "invalid_field");
    refused(&http.get(&spot.path(&format!("/checkpoints/{}/diff?cursor=zz", text(&first, "id")))), 400, "invalid_cursor");
    spot.delete();
}

#[test]
fn many_layers_become_one_behind_what_goes_on() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "deep");
    spot.works("mkdir d; echo kept > d/kept");
    let mut checkpoints = Vec::new();
    for number in 0..36 {
        spot.works(&format!("echo {number} > file; echo {number} > d/f{number}; rm -f d/f{}", number - 2));
        checkpoints.push(spot.checkpoint(json!({"wait": "sealed"})));
    }
    let layers = |http: &crate::support::Http| {
        let depth = |environment: &serde_json::Value| environment["runtime"]["layers"].as_u64().unwrap();
        depth(&expect(&http.get(&spot.path("")), 200))
    };
    eventually("they are one", || (layers(&spot.http) < 10).then_some(()));
    assert_eq!(spot.works("cat file; ls d; cat d/kept"), "35\nf34\nf35\nkept\nkept\n");
    // Each of them is what it was.
    for number in [0, 10, 35] {
        spot.restore(&checkpoints[number]);
        assert_eq!(spot.works("cat file"), format!("{number}\n"));
    }
    for checkpoint in &checkpoints {
        assert_eq!(spot.http.delete(&spot.path(&format!("/checkpoints/{}", text(checkpoint, "id")))).status, 204);
    }
    assert_eq!(spot.works("cat file; ls d"), "35\nf34\nf35\nkept\n");
    spot.delete();
    eventually("no layer is left", || (layers_in(server.path()) == 0).then_some(()));
}

#[test]
fn changes_beside_a_workspace_lie_over_its_layers() {
    let server = Server::start();
    let http = server.http();
    let cow = json!({"name": "over", "spec": {"sandbox": {"network_access": "disabled", "workspace_access": "cow"}}});
    let spot = Spot::with(&http, cow);
    spot.works("echo one > a; mkdir d; echo b > d/b");
    expect(&http.post(&spot.path("/changes/keep"), json!({})), 200);
    let first = spot.checkpoint(json!({}));
    spot.works("echo two > a; rm -r d; echo new > c");
    let changes = walk(&http, &spot.path("/changes"), 50);
    let told: Vec<String> = changes.iter().map(|change| format!("{} {}", text(change, "kind"), text(change, "path"))).collect();
    assert_eq!(told, ["modified a", "added c", "deleted d"]);
    expect(&http.post(&spot.path("/changes/keep"), json!({"paths": ["a", "d"]})), 200);
    expect(&http.post(&spot.path("/changes/drop"), json!({})), 200);
    assert_eq!(spot.works("cat a; ls"), "two\na\n");
    spot.checkpoint(json!({}));
    spot.restore(&first);
    assert_eq!(spot.works("cat a d/b"), "one\nb\n");
    spot.delete();
}

#[test]
fn two_environments_never_write_to_one_layer_at_the_same_time() {
    let server = Server::start();
    let http = server.http();
    let spot = Spot::new(&http, "one");
    let sandbox = text(&expect(&http.get(&spot.path("")), 200), "sandbox_id");
    let body = json!({"name": "two", "sandbox_id": sandbox, "spec": {"sandbox": {"network_access": "disabled"}}});
    let other = Spot::with(&http, body);
    spot.works("echo shared > file");
    assert_eq!(other.works("cat file"), "shared\n");
    // A checkpoint through one of them puts both to sleep, and from then on one at a time is awake.
    expect(&http.post(&other.path("/processes"), json!({"argv": ["sleep", "600"]})), 201);
    refused(&http.post(&spot.path("/checkpoints"), json!({})), 409, "environment_busy");
    spot.checkpoint(json!({"on_running": "stop"}));
    spot.works("echo layered > file");
    let refusal = refused(&http.post(&other.path("/exec"), json!({"command": ["true"]})), 409, "conflict");
    assert!(refusal["suggestion"].is_string());
    expect(&http.post(&spot.path("/sleep"), json!({})), 200);
    assert_eq!(other.works("cat file"), "layered\n");
    expect(&http.post(&other.path("/sleep"), json!({})), 200);
    other.delete();
    assert_eq!(spot.works("cat file"), "layered\n");
    spot.delete();
}

#[test]
fn a_sealed_layer_never_changes_and_what_was_planted_leads_nowhere() {
    let server = Server::start();
    let http = server.http();
    let spot = Spot::new(&http, "hostile");
    // While the workspace is still bound as it is: marks that only the kernel should write, and a link to everything.
    spot.works(
        "mkdir real hidden; echo kept > real/file; echo secret > hidden/file; ln -s / root; mkfifo pipe; : > empty; chmod 000 hidden; \
         python3 -c 'import os\nfor p, k, v in [(\"real\", \"redirect\", b\"/etc\"), (\"real\", \"origin\", b\"x\"), (\"real\", \"opaque\", b\"y\"), (\"empty\", \"metacopy\", b\"\")]:\n os.setxattr(p, \"user.overlay.\" + k, v)' || true",
    );
    let first = spot.checkpoint(json!({}));
    let sandbox = text(&expect(&http.get(&spot.path("")), 200), "sandbox_id");
    let layer = server.path().join("sandboxes").join(sandbox).join("workspace");
    let digest = || {
        let script = "find . -printf '%y %m %s %T@ %p %l\\n' | sort; find . -type f | sort | xargs sha256sum; getfattr -dR -m - . 2>/dev/null || true";
        let output = std::process::Command::new("sh").args(["-c", script]).current_dir(&layer).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let before = digest();
    assert!(before.contains("real/file"), "{before}");
    spot.works("cat real/file; chmod 755 hidden; echo more >> hidden/file; rm real/file; mv real moved || cp -a real moved; rm -f root; touch empty2");
    let forks = spot.fork(json!({"checkpoint_id": first["id"], "count": 2}));
    for fork in &forks {
        assert_eq!(
            fork.works("cat real/file; test ! -e real/passwd && echo nothing; chmod 700 hidden; cat hidden/file"),
            "kept\nnothing\nsecret\n"
        );
        fork.works("rm -r real hidden pipe");
    }
    let path = spot.path(&format!("/checkpoints/{}/diff?text=true", text(&first, "id")));
    let told = expect(&http.get(&path), 200).to_string();
    assert!(!told.contains("root:x:0"), "nothing of the host is told: {told}");
    spot.checkpoint(json!({}));
    spot.restore(&first);
    assert_eq!(spot.works("cat real/file"), "kept\n");
    assert_eq!(digest(), before, "what was sealed has changed");
    spot.delete();
}

#[test]
fn what_a_command_left_behind_is_in_the_way_too() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "left");
    spot.works("(setsid sleep 600 >/dev/null 2>&1 </dev/null &)");
    // On a busy machine it is something else for a while.
    eventually("it sleeps", || (spot.works("pgrep -c sleep || true") == "1\n").then_some(()));
    for path in ["/checkpoints", "/fork"] {
        refused(&spot.http.post(&spot.path(path), json!({})), 409, "environment_busy");
    }
    assert_eq!(spot.works("pgrep -c sleep"), "1\n");
    spot.checkpoint(json!({"on_running": "stop"}));
    spot.delete();
}

#[test]
fn a_setup_script_that_had_not_run_then_runs_again() {
    let server = Server::start();
    let http = server.http();
    let setup = json!({"script": "echo ran >> setup.log"});
    let spec = json!({"name": "set-up", "spec": {"sandbox": {"network_access": "disabled"}, "setup": setup}});
    let spot = Spot::with(&http, spec);
    let before = spot.checkpoint(json!({}));
    assert_eq!(spot.works("cat setup.log"), "ran\n");
    let after = spot.checkpoint(json!({}));
    spot.restore(&before);
    assert_eq!(spot.works("cat setup.log"), "ran\n");
    spot.restore(&after);
    assert_eq!(spot.works("cat setup.log"), "ran\n");
    let fork = spot.fork(json!({"checkpoint_id": after["id"]})).remove(0);
    assert_eq!(fork.works("cat setup.log"), "ran\n");
    spot.delete();
}

#[test]
fn a_fork_of_a_system_is_another_system() {
    let server = Server::start();
    let http = server.http();
    let spec = json!({"name": "system", "spec": {"sandbox": {"network_access": "disabled", "package_policy": "system"}}});
    let made = http.post(crate::api::world::ENVIRONMENTS, spec);
    if made.status != 201 {
        eprintln!("NOT RUN: this host gives no place a system of its own: {}", made.json());
        return;
    }
    let spot = Spot { http, id: text(&made.json(), "id") };
    spot.works("echo first > /etc/machine-id; mkdir -p /var/lib/dbus; echo first > /var/lib/dbus/machine-id; echo kept > /etc/kept; rm /etc/hosts.allow || true; echo w > w");
    let fork = spot.fork(json!({})).remove(0);
    assert_eq!(
        fork.works("cat /etc/kept w; cat /etc/machine-id /var/lib/dbus/machine-id 2>/dev/null || echo none; stat -c %U /etc/kept"),
        "kept\nw\nnone\nroot\n"
    );
    fork.works("echo second > /etc/machine-id; echo more > /etc/more");
    let first = fork.checkpoint(json!({}));
    fork.works("rm /etc/more /etc/kept");
    let again = fork.fork(json!({"checkpoint_id": first["id"]})).remove(0);
    assert_eq!(again.works("cat /etc/more /etc/kept; cat /etc/machine-id 2>/dev/null || echo none"), "more\nkept\nnone\n");
    assert_eq!(spot.works("cat /etc/machine-id"), "first\n");
    for spot in [again, fork, spot] {
        spot.delete();
    }
}

#[test]
fn after_a_backup_was_restored_nobody_works_on_files_that_no_record_names() {
    let mut server = Server::start();
    let spot = Spot::new(&server.http(), "restored");
    spot.works("echo 1 > f");
    spot.checkpoint(json!({}));
    spot.works("echo 2 > f");
    let backup = server.path().join("backup").display().to_string();
    assert!(server.command(&["backup", &backup]).status().unwrap().success());
    spot.checkpoint(json!({}));
    spot.works("echo 3 > f; echo later > later");
    let directory = server.directory();
    server.kill();
    let data_dir = server.path().display().to_string();
    let restored = crate::support::stead().args(["--data-dir", &data_dir, "--no-start", "restore", &backup, "--replace"]).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let server = Server::builder().on(directory).start();
    let found = Spot { http: server.http(), id: spot.id };
    assert_eq!(found.works("cat f; ls"), "2\nf\n");
    found.works("echo important > important");
    let after = found.checkpoint(json!({}));
    found.works("rm important");
    found.restore(&after);
    assert_eq!(found.works("cat important"), "important\n");
    found.delete();
}
