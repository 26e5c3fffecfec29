//! Every change leaves a record: who, what, when, from where, with which request.

use serde_json::{Value, json};

use super::world::{ENVIRONMENTS, SANDBOXES, at, create, expect, on_both_stores, refused, text, walk};
use crate::authorization::cast::{admit, key_for};
use crate::support::Server;

const AUDIT: &str = "/v1/projects/default/audit";

#[test]
fn every_change_leaves_a_record_with_who_what_when_and_where() {
    on_both_stores(&[], |server| {
        let operator = server.http();
        let owner = admit(&operator, "default", "owner", "owner");
        let guest = admit(&operator, "default", "guest", "member");
        let http = server.http_as(Some(&owner.key));
        let spare = text(&key_for(&operator, "default", &guest.principal, json!({})), "id");

        let made = http.post(ENVIRONMENTS, json!({ "name": "web" }));
        let environment = expect(&made, 201);
        let (id, path) = (text(&environment, "id"), at(&environment));
        let box_made = http.post(SANDBOXES, json!({}));
        let sandbox = text(&expect(&box_made, 201), "id");
        let member = "/v1/projects/default/members";
        let added = http.post(member, json!({ "name": "third", "role": "viewer" }));
        let third = text(&expect(&added, 201), "principal_id");
        let keyed = http.post("/v1/projects/default/api-keys", json!({ "name": "k", "principal_id": third }));
        let key = text(&expect(&keyed, 201), "id");
        let project = text(&environment, "project_id");
        let cases = [
            ("environment.create", id.clone(), made),
            ("environment.update", id.clone(), http.patch(&path, json!({ "spec": { "env": { "A": "1" } } }))),
            ("environment.rollback", id.clone(), http.send("POST", &format!("{path}/versions/1/rollback"), &[], None)),
            ("environment.reconcile", id.clone(), http.send("POST", &format!("{path}/reconcile"), &[], None)),
            ("environment.delete", id, http.delete(&path)),
            ("sandbox.create", sandbox.clone(), box_made),
            ("sandbox.delete", sandbox.clone(), http.delete(&format!("{SANDBOXES}/{sandbox}"))),
            ("member.add", third.clone(), added),
            ("api_key.create", key, keyed),
            ("member.role", third.clone(), http.patch(&format!("{member}/{third}"), json!({ "role": "member" }))),
            ("member.remove", third.clone(), http.delete(&format!("{member}/{third}"))),
            ("api_key.revoke", spare.clone(), http.delete(&format!("/v1/projects/default/api-keys/{spare}"))),
            ("project.update", project, http.patch("/v1/projects/default", json!({ "name": "Default" }))),
        ];
        for (action, target, reply) in &cases {
            assert!(matches!(reply.status, 200 | 201 | 204), "{action}: {}", reply.status);
            let found = walk(&operator, &format!("{AUDIT}?action={action}&target_id={target}"), 10);
            let request = reply.header("x-request-id").unwrap();
            let records: Vec<&Value> = found.iter().filter(|record| record["request_id"] == *request).collect();
            assert_eq!(records.len(), 1, "{action}: {found:?}");
            let record = records[0];
            assert_eq!((&record["principal_id"], &record["source"]), (&json!(owner.principal), &json!("tcp:127.0.0.1")), "{action}");
            assert_eq!(
                record["target_type"].as_str(),
                Some(action.split('.').next().unwrap()).map(|noun| if noun == "member" { "principal" } else { noun })
            );
            assert!(text(record, "at") >= text(&environment, "created_at"), "{record}");
        }
        // Newest first, and nothing of a key in it.
        let all = walk(&operator, AUDIT, 3);
        assert!(all.is_sorted_by(|left, right| text(left, "id") > text(right, "id")));
        let whole = serde_json::to_string(&all).unwrap();
        assert!(!whole.contains(&owner.key) && !whole.contains("stk_"), "{whole}");
    });
}

#[test]
fn what_was_refused_or_repeated_leaves_no_record() {
    on_both_stores(&[], |server| {
        let http = server.http();
        let environment = create(&http, json!({ "name": "web" }));
        let member = server.http_as(Some(&admit(&http, "default", "member", "member").key));
        let before = walk(&http, AUDIT, 200).len();
        refused(&http.post(ENVIRONMENTS, json!({ "name": "web" })), 409, "already_exists");
        assert_eq!(http.patch(&at(&environment), json!({ "name": "" })).status, 400);
        assert_eq!(member.delete(&at(&environment)).status, 403);
        assert_eq!(http.send("PATCH", &at(&environment), &[("If-Match", "\"99\"")], Some(b"{\"purpose\": \"debug\"}")).status, 412);
        assert_eq!(walk(&http, AUDIT, 200).len(), before);
        for _ in 0..3 {
            http.send("POST", ENVIRONMENTS, &[("Idempotency-Key", "once")], Some(b"{\"name\": \"once\"}"));
        }
        assert_eq!(walk(&http, AUDIT, 200).len(), before + 1);
    });
}

#[test]
fn nobody_writes_its_own_entry() {
    let server = Server::start();
    let http = server.http();
    let claims =
        [("X-Forwarded-For", "203.0.113.7"), ("Forwarded", "for=203.0.113.7"), ("X-Request-Id", "req_mine"), ("X-Real-Ip", "203.0.113.7")];
    let reply = http.send("POST", ENVIRONMENTS, &claims, Some(b"{}"));
    let id = text(&expect(&reply, 201), "id");
    let record = &walk(&http, &format!("{AUDIT}?target_id={id}"), 10)[0];
    assert_eq!(
        (text(record, "source"), text(record, "request_id")),
        ("tcp:127.0.0.1".to_owned(), reply.header("x-request-id").unwrap().to_owned())
    );
    assert_ne!(reply.header("x-request-id"), Some("req_mine"));
}

#[test]
fn what_comes_over_the_socket_names_its_user() {
    let server = Server::start();
    let output = server.command(&["env", "create", "from-the-socket"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record = &walk(&server.http(), &format!("{AUDIT}?action=environment.create"), 10)[0];
    assert_eq!(record["details"]["name"], "from-the-socket");
    let uid = rustix::process::getuid().as_raw();
    assert!(text(record, "source").starts_with(&format!("unix:uid={uid},pid=")), "{record}");
    assert!(text(record, "request_id").starts_with("req_"));
}
