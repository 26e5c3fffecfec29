//! Secrets, through the real binary: who is told what, what lies on the disk, which key opens it, and where else values come from.

mod broker;
mod calls;
mod delivery;
mod files;
mod host;
mod keys;
mod output;
mod place;
mod resolving;
mod sinks;
mod sources;
mod vault;

use serde_json::{Value, json};

use crate::support::{Http, Reply};

pub const SECRETS: &str = "/v1/projects/default/secrets";

pub fn put(http: &Http, name: &str, body: &Value) -> Reply {
    http.send("PUT", &format!("{SECRETS}/{name}"), &[], Some(body.to_string().as_bytes()))
}

pub fn set(http: &Http, name: &str, value: &str) -> Reply {
    put(http, name, &json!({ "value": value }))
}
