//! Sandboxes: records of their own, which environments share.

use serde_json::{Value, json};

use super::world::{ENVIRONMENTS, SANDBOXES, at, create, expect, message, on_both_stores, refused, text, walk};
use crate::support::{Http, Server};

fn sandbox(http: &Http, id: &str) -> Value {
    expect(&http.get(&format!("{SANDBOXES}/{id}")), 200)
}

fn is_there(server: &Server, id: &str) -> bool {
    server.path().join("sandboxes").join(id).join("workspace").is_dir()
}

#[test]
fn a_sandbox_that_was_passed_stays_after_its_environments() {
    let server = Server::start();
    let http = server.http();
    let made = expect(&http.post(SANDBOXES, json!({})), 201);
    let id = text(&made, "id");
    assert_eq!((&made["provider"], &made["status"], made.get("made_for")), (&json!("local"), &json!("ready"), None));
    assert_eq!(sandbox(&http, &id), made);
    let [one, two] = ["one", "two"].map(|name| create(&http, json!({ "name": name, "sandbox_id": id })));
    assert_eq!((&one["sandbox_id"], &two["sandbox_id"]), (&json!(id), &json!(id)));
    assert_eq!(one["provider_resource_id"], two["provider_resource_id"]);

    let details = refused(&http.delete(&format!("{SANDBOXES}/{id}")), 409, "sandbox_in_use");
    assert_eq!(details["environments"], 2);
    for environment in [&one, &two] {
        let last = expect(&http.delete(&at(environment)), 200);
        assert_eq!((&last["status"], &last["cleanup_status"]), (&json!("destroyed"), &json!("skipped")));
        assert!(is_there(&server, &id));
        assert_eq!(sandbox(&http, &id)["status"], "ready");
    }
    let gone = expect(&http.delete(&format!("{SANDBOXES}/{id}")), 200);
    assert_eq!(gone["status"], "destroyed");
    assert!(!is_there(&server, &id));
    assert_eq!(expect(&http.delete(&format!("{SANDBOXES}/{id}")), 200), gone);
    let reply = http.post(ENVIRONMENTS, json!({ "sandbox_id": id }));
    assert!(matches!(reply.status, 404 | 409), "nothing new begins in what is gone: {}", reply.status);
}

#[test]
fn a_sandbox_made_for_an_environment_goes_with_the_last_that_uses_it() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let first = create(&http, json!({ "name": "first" }));
        let id = text(&first, "sandbox_id");
        assert_eq!(sandbox(&http, &id)["made_for"], first["id"]);
        let guest = create(&http, json!({ "name": "guest", "sandbox_id": id }));
        std::fs::write(server.path().join("sandboxes").join(&id).join("workspace/file"), "work").unwrap();

        let last = expect(&http.delete(&at(&first)), 200);
        assert_eq!((&last["status"], &last["cleanup_status"]), (&json!("destroyed"), &json!("skipped")));
        assert!(is_there(server, &id), "the guest still works there");
        assert_eq!(expect(&http.get(&at(&guest)), 200)["status"], "ready");
        assert_eq!(sandbox(&http, &id)["made_for"], guest["id"]);
        let last = expect(&http.delete(&at(&guest)), 200);
        assert_eq!((&last["status"], &last["cleanup_status"]), (&json!("destroyed"), &json!("succeeded")));
        assert!(!is_there(server, &id));
        assert_eq!(sandbox(&http, &id)["status"], "destroyed");
    });
}

#[test]
fn one_place_seen_gone_is_gone_for_all_who_share_it() {
    let server = Server::start();
    let http = server.http();
    let id = text(&expect(&http.post(SANDBOXES, json!({})), 201), "id");
    let [one, two] = ["one", "two"].map(|name| create(&http, json!({ "name": name, "sandbox_id": id })));
    let (place, away) = (server.path().join("sandboxes").join(&id), server.path().join("away"));
    std::fs::rename(&place, &away).unwrap();
    expect(&http.send("POST", &format!("{}/reconcile", at(&one)), &[], None), 200);
    assert_eq!(expect(&http.get(&at(&two)), 200)["status"], "orphaned");
    assert_eq!(sandbox(&http, &id)["status"], "orphaned");
    std::fs::rename(&away, &place).unwrap();
    expect(&http.send("POST", &format!("{}/reconcile", at(&two)), &[], None), 200);
    assert_eq!(expect(&http.get(&at(&one)), 200)["status"], "ready");
}

#[test]
fn every_environment_has_a_sandbox_and_lists_are_newest_first() {
    let server = Server::builder().with(&["--provider-alias", "sprites=local"]).start();
    let http = server.http();
    let environment = create(&http, json!({ "provider": "sprites" }));
    expect(&http.post(SANDBOXES, json!({ "provider": "sprites" })), 201);
    // A body may be left out.
    expect(&http.send("POST", SANDBOXES, &[], None), 201);
    let all = walk(&http, SANDBOXES, 2);
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all.is_sorted_by(|left, right| text(left, "id") > text(right, "id")));
    // The truth about the provider, also where an alias was asked for.
    assert!(all.iter().all(|sandbox| sandbox["provider"] == "local"));
    assert_eq!(sandbox(&http, &text(&environment, "sandbox_id"))["made_for"], environment["id"]);
    // Whoever serves it is what counts for sharing.
    let shared = create(&http, json!({ "provider": "local", "sandbox_id": environment["sandbox_id"] }));
    assert_eq!(shared["runtime"]["provider"], "local");
    let reply = http.post(SANDBOXES, json!({ "provider": "docker" }));
    refused(&reply, 409, "provider_not_configured");
    assert!(message(&reply).contains("docker"));
    assert_eq!(refused(&http.post(SANDBOXES, json!({ "id": "x" })), 400, "invalid_field")["field"], "id");
}
