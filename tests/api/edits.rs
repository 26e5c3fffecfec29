//! PATCH: what it changes, what it leaves, and who wins when two edit at once.

use serde_json::{Value, json};

use super::world::{at, at_once, create, expect, on_both_stores, refused, text};
use crate::support::{Http, Reply, Server};

fn patch_if(http: &Http, path: &str, tag: &str, body: &Value) -> Reply {
    http.send("PATCH", path, &[("If-Match", tag)], Some(body.to_string().as_bytes()))
}

#[test]
fn an_edit_changes_what_it_names_and_nothing_else() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let environment = create(
            &http,
            json!({ "name": "web", "scope": "owner", "owned_by": "agent_1", "bound_to_type": "run", "bound_to_id": "run_1", "tags": { "a": "1" } }),
        );
        let path = at(&environment);
        for (edit, field, value) in [
            (json!({ "purpose": "debug" }), "purpose", json!("debug")),
            (json!({ "retention_policy": "retain_always" }), "retention_policy", json!("retain_always")),
            (json!({ "bound_to_type": "loop" }), "bound_to_type", json!("automation")),
            (json!({ "bound_to_id": "loop_1" }), "bound_to_id", json!("loop_1")),
            (json!({ "owned_by": "agent_2" }), "owned_by", json!("agent_2")),
            (json!({ "tags": { "b": "2" } }), "tags", json!({ "b": "2" })),
            (json!({ "name": "web 2" }), "name", json!("web 2")),
            (json!({ "bound_to_id": null }), "bound_to_id", Value::Null),
            (json!({ "owned_by": null }), "owned_by", Value::Null),
            (json!({ "scope": null }), "scope", Value::Null),
            (json!({ "tags": {} }), "tags", Value::Null),
        ] {
            let before = expect(&http.get(&path), 200);
            let after = expect(&http.patch(&path, edit.clone()), 200);
            // What was taken away is absent, not null.
            assert_eq!(after.get(field).cloned().unwrap_or_default(), value, "{edit}");
            assert_eq!(after.as_object().unwrap().contains_key(field), !value.is_null(), "{edit}");
            for (name, old) in before.as_object().unwrap() {
                if name != field && !["updated_at", "updated_by"].contains(&&**name) {
                    assert_eq!(&after[name], old, "{edit} changed {name}");
                }
            }
            assert!(text(&after, "updated_at") > text(&before, "updated_at"));
            assert_eq!(expect(&http.get(&path), 200), after);
        }
        // Freed from its owner's scope it stands among the project's names.
        create(&http, json!({ "name": "web 2", "scope": "owner", "owned_by": "agent_1" }));
        refused(&http.post(super::world::ENVIRONMENTS, json!({ "name": "web 2" })), 409, "already_exists");
    });
}

#[test]
fn an_edit_that_changes_nothing_is_no_edit() {
    let server = Server::start();
    let http = server.http();
    let environment = create(&http, json!({ "name": "web", "purpose": "debug", "tags": { "a": "1" }, "spec": { "env": { "A": "1" } } }));
    let tag = http.get(&at(&environment)).header("etag").unwrap().to_owned();
    for edit in [
        json!({}),
        json!({ "name": "web", "purpose": "debug", "tags": { "a": "1" } }),
        json!({ "spec": {} }),
        json!({ "spec": { "env": { "A": "1" }, "idle_timeout": "300s" } }),
        json!({ "spec": { "env": { "B": null } } }),
        json!({ "spec": { "sandbox": { "network_access": null } } }),
        json!({ "spec": { "kind": "local" } }),
        json!({ "spec": null }),
    ] {
        let reply = http.patch(&at(&environment), edit.clone());
        assert_eq!(expect(&reply, 200), environment, "{edit}");
        assert_eq!(reply.header("etag"), Some(&*tag), "{edit}");
    }
    let history = expect(&http.get(&format!("{}/versions", at(&environment))), 200);
    assert_eq!(history["items"].as_array().unwrap().len(), 1);
    let audit = expect(&http.get(&format!("/v1/projects/default/audit?target_id={}", text(&environment, "id"))), 200);
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "only its creation: {audit}");
}

#[test]
fn a_definition_is_edited_by_merge_patch() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let environment =
            create(&http, json!({ "name": "web", "template_id": "coding-default", "spec": { "env": { "A": "1", "B": "1" } } }));
        let path = at(&environment);
        let mut version = 1;
        let mut fingerprints = vec![text(&environment, "fingerprint")];
        for (edit, pointer, value) in [
            (json!({ "env": { "B": "2", "C": "3" } }), "/env", json!({ "A": "1", "B": "2", "C": "3" })),
            (json!({ "env": { "A": null } }), "/env", json!({ "B": "2", "C": "3" })),
            (json!({ "env": null }), "/env", Value::Null),
            (
                json!({ "ports": [{ "port": 1 }, { "port": 2 }] }),
                "/ports",
                json!([{ "port": 1, "primary": false }, { "port": 2, "primary": false }]),
            ),
            // A list is replaced whole.
            (json!({ "ports": [{ "port": 3 }] }), "/ports", json!([{ "port": 3, "primary": false }])),
            (json!({ "checkpoints": { "keep": 2 } }), "/checkpoints", json!({ "before_takeover": true, "after_run": true, "keep": 2 })),
            // A null takes the template's value again.
            (json!({ "checkpoints": { "keep": null } }), "/checkpoints/keep", json!(10)),
            (json!({ "idle_timeout": "1h" }), "/idle_timeout", json!("1h")),
            (json!({ "idle_timeout": null }), "/idle_timeout", json!("5m")),
        ] {
            version += 1;
            let after = expect(&http.patch(&path, json!({ "spec": edit })), 200);
            assert_eq!(after["spec"].pointer(pointer).cloned().unwrap_or_default(), value, "{edit}");
            assert_eq!(after["spec_version"], version, "{edit}");
            fingerprints.push(text(&after, "fingerprint"));
        }
        // The same definition has the same fingerprint, whatever came between.
        assert_eq!(fingerprints[7], fingerprints[5]);
        // An edit of the record is no edit of the definition.
        assert_eq!(expect(&http.patch(&path, json!({ "name": "other" })), 200)["spec_version"], version);
        for (edit, field) in [
            (json!({ "colour": 1 }), "spec.colour"),
            (json!({ "colour": null }), "spec.colour"),
            (json!({ "sandbox": { "colour": null } }), "spec.sandbox.colour"),
            (json!({ "sandbox": { "mode": "x" } }), "spec.sandbox.mode"),
            (json!({ "env": { "1A": "x" } }), "spec.env.1A"),
            (json!([]), "spec"),
            (json!("text"), "spec"),
        ] {
            assert_eq!(refused(&http.patch(&path, json!({ "spec": edit })), 400, "invalid_field")["field"], field, "{edit}");
        }
        assert_eq!(expect(&http.get(&path), 200)["spec_version"], version);
    });
}

#[test]
fn an_edit_for_an_older_version_is_refused() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let made = http.post(super::world::ENVIRONMENTS, json!({ "name": "web" }));
        let path = at(&expect(&made, 201));
        let first = made.header("etag").unwrap().to_owned();
        let edited = patch_if(&http, &path, &first, &json!({ "purpose": "debug" }));
        expect(&edited, 200);
        let second = edited.header("etag").unwrap().to_owned();
        assert_ne!(first, second);
        let details = refused(&patch_if(&http, &path, &first, &json!({ "purpose": "review" })), 412, "precondition_failed");
        assert_eq!(details["etag"], *second, "the refusal names the present one");
        assert_eq!(expect(&http.get(&path), 200)["purpose"], "debug");
        expect(&patch_if(&http, &path, "*", &json!({ "purpose": "review" })), 200);
        let third = http.get(&path).header("etag").unwrap().to_owned();
        // Looking at the sandbox is no edit: whoever holds the tag may still use it.
        expect(&http.send("POST", &format!("{path}/reconcile"), &[], None), 200);
        expect(&patch_if(&http, &path, &third, &json!({ "purpose": "custom" })), 200);
        for nonsense in ["", "nonsense", "\"x\"", "\"-1\"", "1", "W/"] {
            assert_eq!(refused(&patch_if(&http, &path, nonsense, &json!({})), 400, "invalid_field")["field"], "If-Match", "{nonsense}");
        }
    });
}

#[test]
fn of_many_edits_of_one_version_exactly_one_wins() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let made = http.post(super::world::ENVIRONMENTS, json!({ "name": "web" }));
        let (path, tag) = (at(&expect(&made, 201)), made.header("etag").unwrap().to_owned());
        for round in 0..3 {
            let tag = if round == 0 { tag.clone() } else { http.get(&path).header("etag").unwrap().to_owned() };
            let replies = at_once(12, |number| {
                let body = json!({ "spec": { "env": { "WINNER": format!("{round}-{number}") } } });
                (number, patch_if(&http, &path, &tag, &body))
            });
            let winners: Vec<usize> = replies.iter().filter(|(_, reply)| reply.status == 200).map(|(number, _)| *number).collect();
            assert_eq!(winners.len(), 1, "{winners:?}");
            assert!(replies.iter().all(|(_, reply)| matches!(reply.status, 200 | 412)));
            let now = expect(&http.get(&path), 200);
            assert_eq!(now["spec"]["env"]["WINNER"], format!("{round}-{}", winners[0]));
            assert_eq!(now["spec_version"], round + 2);
        }
        // Without a condition every edit is kept: none overwrites another that it did not see. In a crowd one may be told to try again.
        let statuses = at_once(12, |number| {
            let body = json!({ "spec": { "env": { format!("EDIT_{number}"): "1" } } });
            let replies = (0..20).map(|_| http.patch(&path, body.clone()));
            replies
                .inspect(|reply| assert!(reply.status == 200 || reply.json()["error"]["details"]["recoverable"] == true))
                .map(|reply| reply.status)
                .find(|status| *status == 200)
        });
        assert!(statuses.iter().all(|status| *status == Some(200)), "{statuses:?}");
        let now = expect(&http.get(&path), 200);
        assert_eq!(now["spec"]["env"].as_object().unwrap().len(), 13, "{}", now["spec"]["env"]);
        assert_eq!(now["spec_version"], 4 + 12);
    });
}
