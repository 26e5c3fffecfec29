//! No parameter of a path leads anywhere but to a record or to a refusal.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::assert_refusal;
use crate::crashes::{ENVIRONMENTS, create, directories, text};
use crate::support::Server;

const TRAVERSALS: &[&str] = &[
    "..",
    ".",
    "%2e%2e",
    "%2E%2e",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f%2e%2e%2fowner.key",
    "..%5c..%5cowner.key",
    "%252e%252e%252f",
    "....%2f%2f",
    "%2fetc%2fpasswd",
    "sbx_..%2f..%2f..%2f..%2f..%2f..%2f000000000000",
    "env_..%2f..%2f..%2f..%2f..%2f..%2f000000000000",
    "%ef%bc%8e%ef%bc%8e%ef%bc%8f",
    "owner.key",
    "stead.db",
    "%00",
    "*",
    "~",
    ";",
    "%20",
    "-",
    "default%2fenvironments",
    "%2e%2e%3fconfirm=default",
];

/// Everything in the data directory but what a running database changes.
fn contents(path: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![path.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let (kind, entry) = (entry.file_type().unwrap(), entry.path());
            let name = entry.strip_prefix(path).unwrap().display().to_string();
            // The store's own; what is tried on this host beside a server that starts, and what is made ready, comes and goes when it likes.
            let passing = ["stead.db", "trash", "spare", ".place-check-", "abilities.json"];
            if !passing.iter().any(|passing| name.starts_with(passing)) {
                found.insert(name);
                // A link of the skeleton leads out of it, to where others come and go.
                if kind.is_dir() {
                    left.push(entry);
                }
            }
        }
    }
    found
}

#[test]
fn traversal_in_every_parameter_of_every_path_is_refused() {
    let server = Server::start();
    let http = server.http();
    let kept = create(&http, "kept").unwrap().json();
    // What all places share of the root is made behind the start, and takes a moment.
    crate::crashes::eventually("the skeleton is there", || server.path().join("skeleton/etc").exists().then_some(()));
    let before = contents(server.path());
    let document = http.get("/openapi.json").json();
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            let parameters: Vec<&str> = path.split('/').filter(|part| part.starts_with('{')).collect();
            for attacked in &parameters {
                for traversal in TRAVERSALS {
                    let target: String = path
                        .split('/')
                        .map(|part| match part {
                            part if part == *attacked => traversal,
                            "{project}" => "default",
                            "{environment_id}" => text(&kept, "id"),
                            "{sandbox_id}" => text(&kept, "sandbox_id"),
                            "{version}" => "1",
                            part if part.starts_with('{') => "local",
                            part => part,
                        })
                        .collect::<Vec<_>>()
                        .join("/");
                    let reply = http.try_send(&method, &target, &[], Some(b"{}")).unwrap();
                    assert_refusal(&reply, &format!("{method} {target}"));
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 500, "the document lists the routes");
    assert_eq!(contents(server.path()), before, "no file came or went");
    assert_eq!(http.get(&format!("{ENVIRONMENTS}/{}", text(&kept, "id"))).json()["status"], "ready");
}

#[test]
fn traversal_in_bodies_makes_no_directory_elsewhere() {
    let server = Server::start();
    let http = server.http();
    let before = directories(server.path());
    for name in ["../../x", "..", "/etc/x", "a/../../b", "a\\..\\b", ".hidden", "a/b", "x.", "./x"] {
        assert_refusal(&http.post(ENVIRONMENTS, json!({ "name": name })), name);
        assert_refusal(&http.post(ENVIRONMENTS, json!({ "name": "ok", "sandbox_id": name })), name);
        assert_refusal(&http.post(ENVIRONMENTS, json!({ "name": "ok", "spec": { "id": name } })), name);
        assert_refusal(&http.post("/v1/projects", json!({ "handle": name })), name);
    }
    for source in ["host:/", "host:/etc", &format!("host:{}", server.path().display()), "host:/tmp/../etc", "artifact:art_../../x"] {
        let spec = json!({ "mounts": [{ "source": source, "path": "/data" }] });
        assert_refusal(&http.post(ENVIRONMENTS, json!({ "name": "mounts", "spec": spec })), source);
    }
    assert_eq!(directories(server.path()), before);
}
