//! Two servers, each with a data directory of its own, on one PostgreSQL.

use serde_json::json;
use stead_testing::PrivatePostgres;

use super::{ENVIRONMENTS, directories, eventually, text};
use crate::support::{Http, Server};

#[test]
fn records_are_everybodys_and_places_their_hosts() {
    let postgres = PrivatePostgres::start();
    let url = postgres.url();
    let here = Server::builder().with(&["--database", &url]).start();
    let mut there = Server::builder().with(&["--database", &url]).start();
    assert!(!there.path().join("owner.key").exists(), "the key was made once, by the first");
    let (a, b) = (here.http(), Http::new(&there.address, Some(here.owner_key())));
    let at = |record: &serde_json::Value, rest: &str| format!("{ENVIRONMENTS}/{}{rest}", text(record, "id"));

    // Both are hosts and say so.
    let hosts = eventually("two heartbeats", || {
        let rows = postgres.sql("SELECT id || ' ' || address FROM hosts WHERE heartbeat_at >= started_at ORDER BY id");
        (rows.lines().count() == 2).then_some(rows)
    });
    for server in [&here, &there] {
        let id = std::fs::read_to_string(server.path().join("host.id")).unwrap();
        assert!(hosts.contains(&format!("{} {}", id.trim(), server.address)), "{hosts}");
    }

    // Any record call is answered by either.
    let mine = a.post(ENVIRONMENTS, json!({ "name": "web" })).json();
    let theirs = b.post(ENVIRONMENTS, json!({ "name": "api" })).json();
    assert_ne!(mine["runtime"]["host"], theirs["runtime"]["host"]);
    assert!(directories(here.path()).contains(text(&mine, "sandbox_id")));
    assert!(directories(there.path()).contains(text(&theirs, "sandbox_id")));
    for http in [&a, &b] {
        for record in [&mine, &theirs] {
            assert_eq!(http.get(&at(record, "")).json()["name"], record["name"]);
            assert_eq!(http.patch(&at(record, ""), json!({ "purpose": "debug" })).status, 200);
            assert_eq!(http.get(&at(record, "/versions")).status, 200);
        }
        assert_eq!(http.post(ENVIRONMENTS, json!({ "name": "WEB" })).code(), "already_exists", "names are unique across both");
    }

    // A place is observed only by its host.
    let refused = b.send("POST", &at(&mine, "/reconcile"), &[], None);
    assert_eq!((refused.status, refused.code().as_str()), (409, "environment_on_other_host"));
    assert_eq!(refused.json()["error"]["details"]["host"], mine["runtime"]["host"]);
    assert!(refused.json()["error"]["details"]["suggestion"].is_string());
    assert_eq!(a.send("POST", &at(&mine, "/reconcile"), &[], None).status, 200);
    assert_eq!(a.get(&at(&mine, "")).json()["status"], "ready");

    // A delete through the other frees the name at once; the owning host removes the directory.
    let going = b.delete(&at(&mine, ""));
    assert_eq!((going.status, text(&going.json(), "status")), (200, "destroying"));
    let again = b.post(ENVIRONMENTS, json!({ "name": "web" }));
    assert_eq!(again.status, 201);
    assert!(directories(there.path()).contains(text(&again.json(), "sandbox_id")));
    let gone =
        eventually("its own host removes it", || Some(b.get(&at(&mine, "")).json()).filter(|record| record["status"] == "destroyed"));
    assert_eq!(gone["cleanup_status"], "succeeded");
    assert!(!directories(here.path()).contains(text(&mine, "sandbox_id")));

    // A host that is gone takes nothing with it.
    there.kill();
    assert_eq!(a.get(&at(&theirs, "")).json()["status"], "ready");
    assert_eq!(a.delete(&at(&theirs, "")).json()["status"], "destroying");
    let there = Server::builder().on(there.directory()).with(&["--database", &url]).start();
    eventually("it is removed when its host is back", || (a.get(&at(&theirs, "")).json()["status"] == "destroyed").then_some(()));
    assert!(!directories(there.path()).contains(text(&theirs, "sandbox_id")));
}

#[test]
fn a_directory_goes_with_its_database() {
    let postgres = PrivatePostgres::start();
    let (one, other) = (postgres.database("one"), postgres.database("other"));
    let mut server = Server::builder().with(&["--database", &one]).start();
    let Err((status, stderr)) = Server::builder().on(server.directory()).with(&["--database", &one]).try_start() else {
        panic!("two servers on one directory")
    };
    assert_eq!(status, 3, "{stderr}");
    assert!(stderr.contains(&format!("process {}", server.pid())), "{stderr}");
    assert_eq!(server.terminate(), Some(0));
    let Err((status, stderr)) = Server::builder().on(server.directory()).with(&["--database", &other]).try_start() else {
        panic!("another installation's workspaces were taken over")
    };
    assert_ne!(status, 0);
    assert!(stderr.contains("installation"), "{stderr}");
}
