//! How often one key may call.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::api::world::refused;
use crate::authorization::cast::admit;
use crate::support::{Reply, Server};

fn number(reply: &Reply, header: &str) -> u64 {
    reply.header(header).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no number in {header}: {:?}", reply.headers))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Calls until the limit is met.
fn exhaust(call: impl Fn() -> Reply) -> Reply {
    (0..30).map(|_| call()).find(|reply| reply.status == 429).expect("the limit is met")
}

fn assert_limited(reply: &Reply) {
    let details = refused(reply, 429, "rate_limit_exceeded");
    assert_eq!(details["recoverable"], true);
    let wait = number(reply, "retry-after");
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!((number(reply, "x-ratelimit-limit"), number(reply, "x-ratelimit-remaining")), (5, 0));
    assert_eq!((reply.header("x-ratelimit-scope"), reply.header("x-ratelimit-policy")), (Some("key"), Some("5;w=60")));
    let reset = number(reply, "x-ratelimit-reset");
    assert!(reset >= now() && reset <= now() + 61, "{reset} is not a moment within the window");
}

#[test]
fn too_many_requests_with_one_key_are_refused_with_the_time_to_wait() {
    let server = Server::builder().with(&["--rate-limit", "5"]).start();
    let busy = admit(&server.http(), "default", "busy", "member");
    let http = server.http_as(Some(&busy.key));
    let first = http.get("/v1/identity");
    assert_eq!(first.status, 200);
    assert_eq!((number(&first, "x-ratelimit-limit"), number(&first, "x-ratelimit-remaining")), (5, 4));
    assert_eq!((first.header("x-ratelimit-scope"), first.header("x-ratelimit-policy")), (Some("key"), Some("5;w=60")));
    assert_eq!(first.header("retry-after"), None);
    assert!(number(&first, "x-ratelimit-reset") >= now());
    assert_limited(&exhaust(|| http.get("/v1/projects/default/environments")));
    // Whatever it asks for, and whatever it appends to the key.
    assert_eq!(http.post("/v1/projects/default/environments", json!({})).status, 429);
    assert_eq!(server.http_as(Some(&format!("{}.default", busy.key))).get("/v1/identity").status, 429);
    // Others go on: another key, the socket, and what needs no key.
    assert_eq!(server.http().get("/v1/identity").status, 200);
    assert_eq!(http.get("/healthz").status, 200);
    let output = server.command(&["http", "GET", "/v1/identity"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_refused_counts_too() {
    let server = Server::builder().with(&["--rate-limit", "5"]).start();
    let [guesser, climber] = ["guesser", "climber"].map(|name| server.http_as(Some(&admit(&server.http(), "default", name, "viewer").key)));
    // Somebody who tries handles, and somebody who tries what its role does not allow.
    assert_limited(&exhaust(|| guesser.get("/v1/projects/somebody-elses")));
    assert_limited(&exhaust(|| climber.post("/v1/projects/default/environments", json!({}))));
}

#[test]
fn no_limit_means_no_limit() {
    let server = Server::builder().with(&["--rate-limit", "0"]).start();
    let http = server.http();
    let replies: Vec<Reply> = (0..50).map(|_| http.get("/v1/identity")).collect();
    assert!(replies.iter().all(|reply| reply.status == 200 && reply.header("x-ratelimit-limit").is_none()));
}
