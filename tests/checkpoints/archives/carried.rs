//! What comes out is what went in.

use serde_json::json;

use super::super::Spot;
use super::super::tree::Tree;
use super::{IMPORT, forging, layers, ordinary, send};
use crate::api::world::{ENVIRONMENTS, at_once, expect, refused, text};
use crate::crashes::{Dice, eventually, proving};
use crate::support::Server;

/// Everything about every file that a program inside can see, but for what a filesystem makes up itself.
const SEEN: &str = r"find . -mindepth 1 \( -type d -printf 'd %m %T@ %p\n' \) -o -printf '%y %m %s %n %T@ %l %p\n' | LC_ALL=C sort
    find . -type f -size -200M -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum; stat -c %b sparse 2>/dev/null | grep -q '^[0-9]\{1,3\}$' && echo holes";

const FIRST: &str = r"mkdir -p kept/deep removed/er replaced; echo one > kept/deep/a; echo two > removed/er/b; echo old > replaced/old; echo c > gone
    echo hard > h1; ln h1 h2; ln h1 kept/h3; ln -s ../outside link; ln -s $(printf 'x%.0s' $(seq 300)) long-link; mkfifo pipe
    printf bytes > $(printf 'no\377\376text'); printf x > $(printf 'n%.0s' $(seq 250)); chmod 4710 h1 2>/dev/null || chmod 710 h1
    head -c 20000000 /dev/urandom > big; truncate -s 40G sparse; echo middle | dd of=sparse bs=1 seek=20G conv=notrunc status=none
    touch -d '2001-02-03 04:05:06.789' kept/deep/a; touch -d '1960-01-01' removed; chmod 1777 kept; chmod 500 kept/deep";
const SECOND: &str =
    "rm gone; rm -rf removed; rm -r replaced; mkdir replaced; echo new > replaced/new; echo more >> big; mkdir removed; mv h2 h4";
const THIRD: &str = "echo now > now; ln now now-too; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")' 2>/dev/null || true; chmod 644 h1";

/// Makes something of everything, with two checkpoints and something after them.
fn source(server: &Server) -> (Spot, Vec<String>) {
    let body = json!({"name": "source", "tags": {"team": "core"}, "purpose": "review",
        "spec": {"sandbox": {"network_access": "disabled"}, "env": {"GREETING": "hello"}, "setup": {"script": "echo set up >> /runtime/setups"}}});
    let spot = Spot::with(&server.http(), body);
    let mut seen = Vec::new();
    for (script, name) in [(FIRST, Some("first")), (SECOND, Some("second")), (THIRD, None)] {
        spot.works(script);
        if let Some(name) = name {
            spot.checkpoint(json!({"name": name}));
        }
        seen.push(spot.works(SEEN));
    }
    (spot, seen)
}

fn check(from: &Server, to: &Server) {
    let (spot, _) = source(from);
    let archive = spot.export();
    let manifest = forging::manifest(&archive).to_string();
    for secret in [&from.owner_key(), "owned_by", "principal", &spot.id] {
        assert!(!manifest.contains(secret), "{manifest}");
    }
    // What every program sees of each checkpoint, there; how it was before it was sealed may differ in what a copy changes.
    let theirs = spot.checkpoints();
    assert_eq!(theirs.iter().map(|row| text(row, "reason")).collect::<Vec<_>>(), ["requested", "requested", "export"]);
    let expected: Vec<String> = theirs
        .iter()
        .map(|row| {
            spot.restore(row);
            spot.works(SEEN)
        })
        .collect();
    assert!(expected[0].contains("holes") && expected[2].contains("./now"));

    let made = expect(&send(&to.http(), &archive, "", None), 201);
    let come = Spot { http: to.http(), id: text(&made, "id") };
    assert_ne!(come.id, spot.id);
    let original = expect(&from.http().get(&spot.path("")), 200);
    for field in ["name", "spec", "tags", "purpose", "environment_mode", "lifetime", "retention_policy"] {
        assert_eq!(made[field], original[field], "{field}");
    }
    let me = text(&expect(&to.http().get("/v1/identity"), 200), "principal_id");
    assert_eq!((made["owned_by"].as_str(), made["spec_version"].as_u64(), &made["status"]), (Some(&*me), Some(1), &json!("ready")));
    assert_eq!(come.works(SEEN), expected[2], "as it was exported");
    assert_eq!(come.works("cat /runtime/setups 2>/dev/null | wc -l; echo $GREETING"), "0\nhello\n", "the script had run there");

    let ours = come.checkpoints();
    assert_eq!(ours.len(), 3);
    for (number, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        for field in ["name", "reason", "created_at"] {
            assert_eq!(our.get(field), their.get(field), "{field}");
        }
        assert_eq!((text(our, "state"), our["id"] == their["id"]), ("durable".to_owned(), false));
        assert_eq!(our.get("parent_id"), number.checked_sub(1).map(|parent| &ours[parent]["id"]));
    }
    assert_eq!(expect(&come.http.get(&come.path("")), 200)["runtime"]["checkpoint_id"], ours[2]["id"]);
    for (row, expected) in ours.iter().zip(&expected) {
        come.restore(row);
        assert_eq!(come.works(SEEN), *expected, "{row}");
    }
    // It goes on like any other, and back.
    come.works("echo here > here");
    let again = Spot::import(&to.http(), &come.export(), "again");
    assert_eq!(again.works("cat here now"), "here\nnow\n");
    assert_eq!(again.checkpoints().len(), 4);
    for (http, id, action) in [(from.http(), &spot.id, "environment.export"), (to.http(), &come.id, "environment.import")] {
        let audit = expect(&http.get(&format!("/v1/projects/default/audit?action={action}&target_id={id}")), 200);
        assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    }
    come.delete();
    again.delete();
    spot.delete();
    eventually("nothing of it is left", || layers(to.path()).is_empty().then_some(()));
}

#[test]
fn an_environment_is_the_same_on_another_server() {
    check(&Server::start(), &Server::start());
}

#[test]
fn the_same_between_root_and_an_ordinary_user() {
    let Some(ordinary) = ordinary() else { return };
    let root = Server::start();
    check(&root, &ordinary);
    check(&ordinary, &root);
}

#[test]
fn random_histories_are_what_they_were() {
    let rounds = if proving() { 60 } else { 4 };
    let (from, to) = (Server::start(), Server::start());
    for round in 0..rounds {
        let (mut tree, mut dice) = (Tree::default(), Dice(round + 500));
        let spot = Spot::new(&from.http(), &format!("random-{round}"));
        let mut sealed = Vec::new();
        for _ in 0..=dice.roll(6) {
            let commands: Vec<String> = (0..6).map(|_| tree.change(&mut dice)).collect();
            spot.works(&format!("set -e; {}", commands.join("; ")));
            if dice.roll(3) > 0 {
                spot.checkpoint(json!({"wait": "sealed"}));
                sealed.push(tree.clone());
            }
            if dice.roll(3) == 0 && !sealed.is_empty() {
                let back = dice.roll(sealed.len() as u64) as usize;
                spot.restore(&spot.checkpoints()[back]);
                tree = sealed[back].clone();
            }
        }
        let come = Spot::import(&to.http(), &spot.export(), &format!("random-{round}"));
        assert_eq!(come.works(super::super::tree::MANIFEST), tree.manifest(), "round {round}");
        let rows = come.checkpoints();
        for (row, tree) in rows.iter().zip(&sealed) {
            come.restore(row);
            assert_eq!(come.works(super::super::tree::MANIFEST), tree.manifest(), "round {round}, {row}");
        }
        // Those that came from the same place do so still.
        let parents = |spot: &Spot| {
            let rows = spot.checkpoints();
            let place = |id: &serde_json::Value| rows.iter().position(|row| row["id"] == *id);
            rows.iter().map(|row| row.get("parent_id").and_then(place)).collect::<Vec<_>>()
        };
        assert_eq!(parents(&come), parents(&spot));
        spot.delete();
        come.delete();
    }
}

#[test]
fn a_fork_that_nothing_was_written_to_is_carried_with_what_it_began_with() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "root");
    spot.works("echo begin > file");
    let fork = spot.fork(json!({"name": "twig"})).remove(0);
    let come = Spot::import(&server.http(), &fork.export(), "carried");
    assert_eq!(come.works("cat file; hostname"), "begin\ncarried\n");
    assert!(fork.checkpoints().is_empty(), "nothing was written that had to be sealed");
    assert_eq!(come.checkpoints().len(), 1);
}

#[test]
fn what_cannot_be_sealed_is_not_exported() {
    let server = Server::builder().with(&["--allow-host-path", "/tmp"]).start();
    let http = server.http();
    let spot = Spot::new(&http, "busy");
    spot.works("echo before > file");
    expect(&http.post(&spot.path("/processes"), json!({"argv": ["sleep", "600"]})), 201);
    refused(&http.post(&spot.path("/export"), json!({})), 409, "environment_busy");
    refused(&http.post(&spot.path("/export"), json!({"on_running": "freeze"})), 409, "checkpoint_needs_stop");
    assert_eq!(http.post(&spot.path("/export"), json!({"on_running": "stop"})).status, 200);
    refused(&http.post(&spot.path("/export"), json!({"unknown": 1})), 400, "invalid_field");
    let directory = tempfile::Builder::new().prefix("stead-").tempdir().unwrap();
    let mounts = json!([{"source": format!("host:{}", directory.path().display()), "path": "/workspace", "access": "rw"}]);
    let bound = Spot::with(&http, json!({"name": "bound", "spec": {"mounts": mounts}}));
    refused(&http.post(&bound.path("/export"), json!({})), 409, "checkpoint_unsupported");
    let beside = Spot::with(&http, json!({"name": "beside", "spec": {"sandbox": {"workspace_access": "cow"}}}));
    beside.works("echo unsettled > file");
    expect(&http.post(&beside.path("/sleep"), json!({})), 200);
    refused(&http.post(&beside.path("/export"), json!({})), 409, "checkpoint_unsupported");
    expect(&http.post(&beside.path("/changes/keep"), json!({})), 200);
    let come = Spot::import(&http, &beside.export(), "settled");
    assert_eq!(come.works("cat file"), "unsettled\n");
}

#[test]
fn an_archive_stays_whole_while_what_it_is_made_of_is_deleted() {
    use std::io::{Read, Write};
    let server = Server::start();
    let spot = Spot::new(&server.http(), "going");
    spot.works("head -c 60000000 /dev/urandom > big; sha256sum big > sum");
    spot.checkpoint(json!({"name": "only"}));
    spot.works("echo later > later");
    // Its head, and then everything is deleted before the rest is read.
    let address = server.address.trim_start_matches("http://");
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Length: 0\r\n\r\n",
        spot.path("/export"),
        server.owner_key()
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut begun = [0; 15];
    socket.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    spot.delete();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    let body = rest.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    eventually("then it goes", || layers(server.path()).is_empty().then_some(()));
    let come = Spot::import(&server.http(), &rest[body..], "kept");
    assert_eq!(come.works("sha256sum -c sum; cat later"), "big: OK\nlater\n");
    drop(socket);
    // Who stops reading lets go of it as well.
    let socket = {
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        socket.write_all(head.replace(&spot.id, &come.id).as_bytes()).unwrap();
        socket.read_exact(&mut begun).unwrap();
        socket
    };
    drop(socket);
    come.delete();
    eventually("nothing holds it", || layers(server.path()).is_empty().then_some(()));
}

#[test]
fn a_repetition_has_the_same_outcome() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "first");
    spot.works("head -c 3000000 /dev/urandom > file");
    let archive = spot.export();
    let replies = at_once(3, |_| send(&server.http(), &archive, "?name=second", Some("one-key")));
    let ids: Vec<String> = replies.iter().map(|reply| text(&expect(reply, 201), "id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(replies.iter().filter(|reply| reply.header("idempotent-replayed").is_some()).count(), 2);
    spot.works("echo more > more");
    refused(&send(&server.http(), &spot.export(), "?name=second", Some("one-key")), 422, "idempotency_mismatch");
    refused(&send(&server.http(), &archive, "?name=third", Some("one-key")), 422, "idempotency_mismatch");
    refused(&send(&server.http(), &archive, "?name=second", None), 409, "already_exists");
    assert_eq!(server.http().get(&format!("{ENVIRONMENTS}?name=second")).json()["items"].as_array().unwrap().len(), 1);
    refused(&server.http().send("POST", &format!("{IMPORT}?nam=x"), &[], Some(&archive)), 400, "invalid_field");
}
