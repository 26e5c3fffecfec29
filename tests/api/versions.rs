//! The versions of a definition: listed, read, compared, gone back to, never rewritten.

use serde_json::{Value, json};

use super::world::{at, create, expect, on_both_stores, refused, text, walk};

#[test]
fn history_is_read_compared_and_never_rewritten() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let environment = create(&http, json!({ "name": "web", "spec": { "env": { "A": "1" } } }));
        let path = at(&environment);
        let edits = [json!({ "env": { "A": "2" }, "idle_timeout": "1h" }), json!({ "env": { "A": null }, "ports": [{ "port": 80 }] })];
        for edit in &edits {
            expect(&http.patch(&path, json!({ "spec": edit })), 200);
        }
        let history = walk(&http, &format!("{path}/versions"), 2);
        let numbers: Vec<u64> = history.iter().map(|version| version["version"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [3, 2, 1]);
        assert_eq!(history[2]["spec"], environment["spec"]);
        assert_eq!(history[2]["fingerprint"], environment["fingerprint"]);
        assert_eq!(history[0]["created_by"], environment["created_by"]);
        for version in &history {
            assert_eq!(&expect(&http.get(&format!("{path}/versions/{}", version["version"])), 200), version);
        }

        let diff = |from: u64, to: u64| expect(&http.get(&format!("{path}/versions/diff?from={from}&to={to}")), 200);
        let changed = diff(1, 2);
        assert_eq!((&changed["from"], &changed["to"]), (&json!(1), &json!(2)));
        assert_eq!(
            changed["changes"],
            json!([{ "path": "env.A", "from": "1", "to": "2" }, { "path": "idle_timeout", "from": "5m", "to": "1h" }])
        );
        let paths = |diff: Value| diff["changes"].as_array().unwrap().iter().map(|change| text(change, "path")).collect::<Vec<_>>();
        assert_eq!(paths(diff(2, 3)), ["env.A", "ports"]);
        assert_eq!(paths(diff(3, 2)), ["env.A", "ports"]);
        assert!(paths(diff(2, 2)).is_empty());

        // Going back adds a version that is the old one again.
        let back = expect(&http.send("POST", &format!("{path}/versions/1/rollback"), &[], None), 200);
        assert_eq!(
            (&back["spec_version"], &back["spec"], &back["fingerprint"]),
            (&json!(4), &environment["spec"], &environment["fingerprint"])
        );
        let after = walk(&http, &format!("{path}/versions"), 200);
        assert_eq!(after[1..], history[..], "what was, stays");
        assert_eq!(after[0]["rolled_back_to"], 1);
        assert!(paths(diff(1, 4)).is_empty());
        // To where one is already is no change.
        assert_eq!(expect(&http.send("POST", &format!("{path}/versions/4/rollback"), &[], None), 200), back);
        assert_eq!(expect(&http.send("POST", &format!("{path}/versions/1/rollback"), &[], None), 200), back);
        assert_eq!(walk(&http, &format!("{path}/versions"), 200).len(), 4);

        // After its end the history is still there to read, and only to read.
        expect(&http.delete(&path), 200);
        assert_eq!(walk(&http, &format!("{path}/versions"), 200), after);
        refused(&http.send("POST", &format!("{path}/versions/1/rollback"), &[], None), 409, "environment_destroyed");
    });
}

#[test]
fn a_fingerprint_ignores_when_it_was_written() {
    let server = crate::support::Server::start();
    let http = server.http();
    let make = |created: &str, updated: &str| {
        let spec = json!({ "env": { "B": "1", "A": "2" }, "created_at": created, "updated_at": updated });
        text(&create(&http, json!({ "spec": spec })), "fingerprint")
    };
    let one = make("2026-05-04T10:00:00Z", "2026-05-04T10:00:00Z");
    assert_eq!(one, make("2020-01-01T00:00:00+02:00", "2026-06-01T00:00:00Z"));
    assert_eq!(one, text(&create(&http, json!({ "spec": { "env": { "A": "2", "B": "1" } } })), "fingerprint"), "nor the order of its keys");
    assert_ne!(one, text(&create(&http, json!({ "spec": { "env": { "A": "2", "B": "2" } } })), "fingerprint"));
}

#[test]
fn a_rollback_is_held_to_what_the_provider_enforces() {
    let server = crate::support::Server::start();
    let http = server.http();
    let brokered =
        json!([{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"], "inject": { "body": true } }]);
    let weak = json!({ "spec": { "secret_bindings": brokered }, "allow_unenforced": true });
    let path = at(&create(&http, weak));
    let edit = json!({ "spec": { "secret_bindings": [] }, "allow_unenforced": false });
    expect(&http.patch(&path, edit), 200);
    let reply = http.send("POST", &format!("{path}/versions/1/rollback"), &[], None);
    assert_eq!(refused(&reply, 409, "posture_not_enforced")["field"], "spec.secret_bindings.inject.body");
    assert_eq!(expect(&http.get(&path), 200)["spec_version"], 2);
}
