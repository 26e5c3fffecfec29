//! `Idempotency-Key`: the same request twice has one outcome.

use serde_json::{Value, json};

use super::world::{ENVIRONMENTS, SANDBOXES, at, at_once, create, expect, on_both_stores, refused, text, walk};
use crate::authorization::cast::admit;
use crate::support::{Http, Reply, Server};

fn post_as(http: &Http, key: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    http.send("POST", path, &[("Idempotency-Key", key)], (!body.is_empty()).then_some(body.as_bytes()))
}

#[test]
fn every_post_takes_a_key_and_has_one_outcome_for_it() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let environment = create(&http, json!({ "name": "web", "spec": { "env": { "A": "1" } } }));
        expect(&http.patch(&at(&environment), json!({ "spec": { "env": { "A": "2" } } })), 200);
        let me = text(&expect(&http.get("/v1/identity"), 200), "principal_id");
        let reconcile = format!("{}/reconcile", at(&environment));
        let rollback = format!("{}/versions/1/rollback", at(&environment));
        let cases = [
            (ENVIRONMENTS, json!({ "name": "made" }), json!({ "name": "other" })),
            (ENVIRONMENTS, json!({}), json!({ "name": "other" })),
            (SANDBOXES, json!({}), json!({ "provider": "local" })),
            (SANDBOXES, Value::Null, json!({})),
            ("/v1/projects", json!({ "handle": "acme" }), json!({ "handle": "other" })),
            ("/v1/projects/default/members", json!({ "name": "guest" }), json!({ "name": "other" })),
            ("/v1/projects/default/api-keys", json!({ "name": "k", "principal_id": me }), json!({ "name": "other", "principal_id": me })),
            (&reconcile, Value::Null, json!({})),
            (&rollback, Value::Null, json!({})),
            ("/v1/projects/default/providers/local/check", Value::Null, json!({})),
            ("/v1/system/prune", json!({ "dry_run": true }), json!({ "dry_run": false })),
        ];
        for (number, (path, body, other)) in cases.iter().enumerate() {
            let key = format!("try {number}");
            let first = post_as(&http, &key, path, body);
            assert!(matches!(first.status, 200 | 201), "{path}: {}", String::from_utf8_lossy(&first.body));
            assert_eq!(first.header("idempotent-replayed"), None, "{path}");
            for _ in 0..2 {
                let again = post_as(&http, &key, path, body);
                assert_eq!((again.status, again.json()), (first.status, first.json()), "{path}");
                assert_eq!(again.header("idempotent-replayed"), Some("true"), "{path}");
            }
            refused(&post_as(&http, &key, path, other), 422, "idempotency_mismatch");
            // So is the same body at another address.
            refused(&post_as(&http, &key, &format!("{path}?"), body), 422, "idempotency_mismatch");
        }
        // One of each was made: what stood before, and the new.
        assert_eq!(walk(&http, ENVIRONMENTS, 50).len(), 2 + 2);
        assert_eq!(walk(&http, SANDBOXES, 50).len(), 4 + 2);
        assert_eq!(walk(&http, "/v1/projects/default/members", 50).len(), 1 + 1);
        assert_eq!(walk(&http, "/v1/projects/default/api-keys", 50).len(), 1 + 1);
        assert_eq!(walk(&http, &format!("{}/versions", at(&environment)), 50).len(), 3);
    });
}

#[test]
fn many_at_once_with_one_key_make_one_environment() {
    on_both_stores(&[], |server| {
        let http = server.http();
        for round in 0..3 {
            let replies = at_once(10, |_| post_as(&http, &format!("round {round}"), ENVIRONMENTS, &json!({ "purpose": "review" })));
            let mut ids: Vec<String> = replies.iter().map(|reply| text(&expect(reply, 201), "id")).collect();
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), 1);
        }
        assert_eq!(walk(&http, &format!("{ENVIRONMENTS}?purpose=review"), 50).len(), 3);
        let replies = at_once(6, |_| post_as(&http, "sandbox", SANDBOXES, &json!({})));
        assert!(replies.iter().all(|reply| reply.status == 201), "{replies:?}");
        assert_eq!(walk(&http, SANDBOXES, 50).len(), 1 + 3 + 1);
    });
}

#[test]
fn the_outcome_is_told_again_whatever_happened_since() {
    let server = Server::start();
    let http = server.http();
    let body = json!({ "name": "web" });
    let first = post_as(&http, "once", ENVIRONMENTS, &body);
    let made = expect(&first, 201);
    expect(&http.patch(&at(&made), json!({ "name": "renamed" })), 200);
    expect(&http.delete(&at(&made)), 200);
    assert_eq!(post_as(&http, "once", ENVIRONMENTS, &body).json(), made);
    assert_eq!(walk(&http, ENVIRONMENTS, 10).len(), 1, "nothing new is made");
}

#[test]
fn what_was_refused_may_be_mended_under_the_same_key() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let web = create(&http, json!({ "name": "web" }));
        refused(&post_as(&http, "mend", ENVIRONMENTS, &json!({ "name": "web" })), 409, "already_exists");
        refused(&post_as(&http, "mend", ENVIRONMENTS, &json!({ "name": 7 })), 400, "invalid_field");
        refused(&post_as(&http, "mend", ENVIRONMENTS, &json!({ "provider": "docker" })), 409, "provider_not_configured");
        expect(&http.delete(&at(&web)), 200);
        expect(&post_as(&http, "mend", ENVIRONMENTS, &json!({ "name": "web" })), 201);
    });
}

#[test]
fn a_key_is_its_callers_own_and_of_a_bounded_length() {
    let server = Server::start();
    let http = server.http();
    let other = server.http_as(Some(&admit(&http, "default", "other", "member").key));
    let mine = expect(&post_as(&http, "ours", ENVIRONMENTS, &json!({ "name": "mine" })), 201);
    let theirs = expect(&post_as(&other, "ours", ENVIRONMENTS, &json!({ "name": "theirs" })), 201);
    assert_ne!(mine["id"], theirs["id"]);

    // A repetition is let in like any other request, or it is not.
    let principal = text(&expect(&other.get("/v1/identity"), 200), "principal_id");
    expect(&http.patch(&format!("/v1/projects/default/members/{principal}"), json!({ "role": "viewer" })), 200);
    assert_eq!(post_as(&other, "ours", ENVIRONMENTS, &json!({ "name": "theirs" })).status, 403);

    let (long, longest) = ("x".repeat(256), "x".repeat(255));
    for wrong in ["", &long, "\u{e9}", "a\tb"] {
        let details = refused(&post_as(&http, wrong, ENVIRONMENTS, &json!({})), 400, "invalid_field");
        assert_eq!(details["field"], "Idempotency-Key", "{wrong:?}");
    }
    expect(&post_as(&http, &longest, ENVIRONMENTS, &json!({})), 201);
    // A key on what is no POST means nothing, and does no harm.
    let header = [("Idempotency-Key", "ours")];
    assert_eq!(http.send("GET", &at(&mine), &header, None).status, 200);
    assert_eq!(http.send("PATCH", &at(&mine), &header, Some(b"{}")).status, 200);
}
