//! A token decides alone.

use serde_json::json;

use super::{LEASES, Scene, act};
use crate::api::world::{at_once, expect, on_both_stores, refused, text};
use crate::support::Server;

#[test]
fn only_who_presents_the_token_is_the_holder() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
        let token = text(&lease, "token");
        refused(&scene.exec(&scene.ann, None, &["true"]), 409, "lease_held");
        expect(&scene.exec(&scene.ann, Some(&token), &["true"]), 200);
        // Whoever has it holds it, whatever their own name is.
        expect(&scene.exec(&scene.ben, Some(&token), &["true"]), 200);
        refused(&act(&scene.ann, &lease, "renew", None, json!({})), 403, "forbidden");
        expect(&act(&scene.ben, &lease, "renew", Some(&token), json!({})), 200);
        refused(&act(&scene.ben, &lease, "renew", Some(&token), json!({ "fence": 7 })), 412, "fence_stale");
        // Who acquired it may let go of it without.
        expect(&act(&scene.ann, &lease, "release", None, json!({})), 200);
        // A token that has ended is never replaced by who the caller is.
        scene.acquire(&scene.ann, json!({}));
        refused(&scene.exec(&scene.ann, Some(&token), &["true"]), 412, "fence_stale");
        expect(&scene.exec(&scene.ann, None, &["true"]), 200);
    });
}

#[test]
fn a_token_is_a_credential_for_as_long_as_it_lasts() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        let lease = scene.acquire(&scene.owner, json!({ "bind": "token" }));
        let token = text(&lease, "token");
        for credential in [token.clone(), format!("{token}.default")] {
            let holder = server.http_as(Some(&credential));
            expect(&scene.exec(&holder, None, &["true"]), 200);
            expect(&holder.get(LEASES), 200);
            // It is for work in the environment, and for nobody's keys, whoever acquired it.
            refused(&holder.get("/v1/projects/default/api-keys"), 403, "forbidden");
            refused(&holder.get("/v1/system"), 403, "forbidden");
            refused(&holder.post(&scene.path("/fork"), json!({})), 403, "forbidden");
            refused(&holder.patch(&scene.path(""), json!({ "spec": { "lease": { "policy": "open" } } })), 403, "forbidden");
        }
        refused(&server.http_as(Some(&format!("{token}.other"))).get(LEASES), 401, "unauthorized");
        let holder = server.http_as(Some(&token));
        expect(&holder.send("POST", &format!("{LEASES}/{}/release", text(&lease, "id")), &[], None), 200);
        refused(&scene.exec(&holder, None, &["true"]), 412, "fence_stale");
        refused(&holder.get(LEASES), 412, "fence_stale");
        refused(&holder.post("/v1/projects/default/environments", json!({ "name": "late" })), 412, "fence_stale");
        expect(&holder.send("POST", &format!("{LEASES}/{}/release", text(&lease, "id")), &[], None), 200);
    });
}

#[test]
fn what_is_no_token_opens_nothing() {
    let mut server = Server::start();
    let scene = Scene::new(&server, json!({}));
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
    let token = text(&lease, "token");
    let mut forged = token.clone();
    forged.replace_range(60..61, if &token[60..61] == "0" { "1" } else { "0" });
    for wrong in [forged.as_str(), &token[..token.len() - 1], &format!("stl_{}", "0".repeat(96)), "stl_"] {
        refused(&scene.exec(&scene.ann, Some(wrong), &["true"]), 412, "fence_stale");
        refused(&server.http_as(Some(wrong)).get(LEASES), 412, "fence_stale");
    }
    refused(&scene.exec(&scene.ann, Some("nonsense"), &["true"]), 400, "bad_request");
    let twice = scene.ann.send("POST", &scene.path("/exec"), &[("Stead-Lease", &token), ("Stead-Lease", &token)], Some(b"{}"));
    refused(&twice, 400, "bad_request");
    // A token of another environment holds nothing here.
    let other = expect(&scene.ben.post(super::ACQUIRE, json!({ "name": "other", "bind": "token" })), 200);
    refused(&scene.exec(&scene.ben, Some(&text(&other["lease"], "token")), &["true"]), 412, "fence_stale");
    // Nowhere is one written down.
    server.terminate();
    for entry in std::fs::read_dir(server.path()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(!bytes.windows(40).any(|window| window == &token.as_bytes()[..40]), "{}", entry.path().display());
    }
    assert!(!server.log().contains(&token[..40]));
}

/// One key, and two who do not know of each other.
#[test]
fn two_agents_with_one_key_never_interleave_when_they_bind_by_token() {
    on_both_stores(&[], |server| {
        let scene = Scene::new(server, json!({}));
        at_once(2, |agent| {
            for _ in 0..5 {
                let lease = loop {
                    let reply = scene.ask(&scene.ann, json!({ "bind": "token", "wait": "1m" }));
                    if reply.status == 200 {
                        break reply.json()["lease"].clone();
                    }
                    let ticket = text(&expect(&reply, 202)["ticket"], "id");
                    let waited = scene.ann.get(&format!("{}/{ticket}?wait=30s", super::TICKETS));
                    if waited.status == 200 {
                        break waited.json()["lease"].clone();
                    }
                };
                let token = text(&lease, "token");
                for _ in 0..3 {
                    expect(&scene.shell(&scene.ann, Some(&token), &format!("echo {agent} {} >> log", lease["fence"])), 200);
                }
                expect(&act(&scene.ann, &lease, "release", Some(&token), json!({})), 200);
            }
        });
        let log = scene.printed(&scene.owner, None, "cat log");
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 30);
        for turn in lines.chunks(3) {
            assert!(turn.iter().all(|line| *line == turn[0]), "{log}");
        }
    });
}
