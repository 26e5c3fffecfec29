//! Requests exactly as the published command line client sends them.

use serde_json::json;

use super::shapes::{ACQUIRE_RESULT, ENVIRONMENT, ENVIRONMENT_LIST, ERROR, EXEC_RESULT, LEASE};
use crate::api::world::{ENVIRONMENTS, expect, text};
use crate::support::{Reply, Server};

/// The headers of that client: a content type only with a body, and an empty body with its length.
fn send(server: &Server, method: &str, path: &str, body: &str) -> Reply {
    let host = server.address.trim_start_matches("http://");
    let key = format!("{}.default", server.owner_key());
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Go-http-client/1.1\r\n");
    if !body.is_empty() || method == "POST" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str(&format!("Authorization: Bearer {key}\r\n"));
    if !body.is_empty() {
        head.push_str("Content-Type: application/json\r\n");
    }
    head.push_str("Accept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    server.http().raw(format!("{head}{body}").as_bytes()).unwrap()
}

#[test]
fn the_published_clients_requests_are_answered_as_it_expects() {
    let server = Server::builder().with(&["--provider-alias", "sprites=local"]).start();
    let recorded = r#"{"name":"e1","provider":"sprites","purpose":"implementation","tags":{"team":"x"},"template_id":"coding-default"}"#;
    let made = expect(&send(&server, "POST", ENVIRONMENTS, recorded), 201);
    ENVIRONMENT.check(&made);
    for (field, value) in serde_json::from_str::<serde_json::Value>(recorded).unwrap().as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    assert_eq!(made["runtime"]["provider"], "local");

    let listed = expect(&send(&server, "GET", ENVIRONMENTS, ""), 200);
    ENVIRONMENT_LIST.check(&listed);
    assert_eq!(listed["items"][0], made);
    let listed =
        expect(&send(&server, "GET", &format!("{ENVIRONMENTS}?include_destroyed=true&limit=50&provider=sprites&status=ready"), ""), 200);
    assert_eq!(listed["items"], json!([made]));

    let path = format!("{ENVIRONMENTS}/{}", text(&made, "id"));
    assert_eq!(expect(&send(&server, "GET", &path, ""), 200), made);
    let updated = expect(&send(&server, "PATCH", &path, r#"{"purpose":"review","tags":{"team":"y"}}"#), 200);
    assert_eq!((&updated["purpose"], &updated["tags"]["team"]), (&json!("review"), &json!("y")));
    ENVIRONMENT.check(&expect(&send(&server, "POST", &format!("{path}/reconcile"), ""), 200));
    let last = expect(&send(&server, "DELETE", &path, ""), 200);
    ENVIRONMENT.check(&last);
    assert_eq!(last["status"], "destroyed");
}

/// They send neither a token nor a key for a repetition, and cannot renew.
#[test]
fn an_environment_is_acquired_worked_in_and_released_by_the_published_client() {
    let server = Server::builder().with(&["--provider-alias", "sprites=local"]).start();
    let acquire = format!("{ENVIRONMENTS}/acquire");
    let recorded =
        r#"{"name":"e1","provider":"sprites","template_id":"coding-default","purpose":"debug","holder_id":"me","holder_type":"manual"}"#;
    let made = expect(&send(&server, "POST", &acquire, recorded), 200);
    ACQUIRE_RESULT.check(&made);
    let (environment, lease) = (&made["environment"], &made["lease"]);
    let id = text(environment, "id");
    assert_eq!((&lease["holder_id"], &lease["holder_type"], &lease["purpose"]), (&json!("me"), &json!("manual"), &json!("debug")));
    assert_eq!((&environment["purpose"], &lease["status"]), (&json!("debug"), &json!("active")));
    let left = lease["expires_in_ms"].as_u64().unwrap();
    assert!(left > 3_500_000 && left <= 3_600_000, "an hour for whoever cannot renew: {left}");
    let path = format!("{ENVIRONMENTS}/{id}");
    assert!(expect(&send(&server, "GET", &path, ""), 200)["lease_expires_at"].is_string());

    let again = send(&server, "POST", &acquire, &format!(r#"{{"environment_id":"{id}","lease_ttl":"30m"}}"#));
    ERROR.check(&expect(&again, 409));
    let written = send(&server, "PUT", &format!("{path}/files"), r#"{"content":"hello","path":"a/b.txt"}"#);
    assert_eq!((written.status, written.body.len()), (204, 0));
    let ran = expect(&send(&server, "POST", &format!("{path}/exec"), r#"{"command":["cat","a/b.txt"]}"#), 200);
    EXEC_RESULT.check(&ran);
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!("hello"), &json!(0)));

    let release = format!("{ENVIRONMENTS}/leases/{}/release", text(lease, "id"));
    let released = expect(&send(&server, "POST", &release, ""), 200);
    LEASE.check(&released);
    assert_eq!(released["status"], "released");
    assert_eq!(expect(&send(&server, "POST", &release, ""), 200), released);
    let held = format!(r#"{{"environment_id":"{id}","holder_id":"me","holder_type":"automation","lease_ttl":"30m"}}"#);
    let next = expect(&send(&server, "POST", &acquire, &held), 200);
    ACQUIRE_RESULT.check(&next);
    assert_eq!((&next["lease"]["holder_type"], next["environment"].get("held_by").is_some()), (&json!("automation"), true));
    ERROR.check(&expect(&send(&server, "POST", &format!("{ENVIRONMENTS}/leases/lse_0/release"), ""), 404));
}

#[test]
fn a_provider_without_its_secret_is_a_conflict_as_published() {
    let server = Server::start();
    let recorded = r#"{"name":"e1","provider":"sprites","purpose":"implementation","tags":{"team":"x"},"template_id":"coding-default"}"#;
    let reply = send(&server, "POST", ENVIRONMENTS, recorded);
    assert_eq!((reply.status, &*reply.code()), (409, "provider_not_configured"));
}
