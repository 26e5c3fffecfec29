//! Requests exactly as the published command line client sends them.

use serde_json::json;

use super::shapes::{ENVIRONMENT, ENVIRONMENT_LIST};
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

#[test]
fn a_provider_without_its_secret_is_a_conflict_as_published() {
    let server = Server::start();
    let recorded = r#"{"name":"e1","provider":"sprites","purpose":"implementation","tags":{"team":"x"},"template_id":"coding-default"}"#;
    let reply = send(&server, "POST", ENVIRONMENTS, recorded);
    assert_eq!((reply.status, &*reply.code()), (409, "provider_not_configured"));
}
