//! Disks that are full, databases that go away, clients that stall or send what no client would: the server says what is wrong, goes on,
//! and loses nothing.

mod database;
mod disk;
mod generated;
mod namespace;
mod paths;
mod protocol;
mod slow_clients;
mod values;

use std::io::Write;

use serde_json::Value;

use crate::support::Reply;

/// Says that something cannot be tried here. Never silently.
pub fn not_run(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {what}: {why}");
}

/// Every refusal on `/v1` is JSON, with a code, a message, and the id under which the log has it.
pub fn assert_refusal(reply: &Reply, what: &str) -> Value {
    assert!((400..500).contains(&reply.status) || reply.status == 501, "{what}: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
    assert_error_body(reply, what)
}

pub fn assert_error_body(reply: &Reply, what: &str) -> Value {
    assert_eq!(reply.header("content-type"), Some("application/json"), "{what}");
    let body = reply.json();
    let error = &body["error"];
    assert!(error["code"].as_str().is_some_and(|code| !code.is_empty()), "{what}: {body}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}: {body}");
    // Below `/api` it stands elsewhere.
    let id = error["details"]["request_id"].as_str().or_else(|| error["context"]["request_id"].as_str()).unwrap_or_default();
    assert!(id.starts_with("req_") && reply.header("x-request-id") == Some(id), "{what}: {body}");
    body
}

/// The same, and it says what to do next.
pub fn assert_helpful(reply: &Reply, status: u16, code: &str) {
    let body = assert_error_body(reply, code);
    assert_eq!((reply.status, body["error"]["code"].as_str().unwrap()), (status, code), "{body}");
    assert!(body["error"]["details"]["suggestion"].is_string(), "{body}");
}
