//! The people in these tests, and their keys.

use serde_json::{Value, json};

use crate::api::world::{expect, text};
use crate::support::Http;

/// A principal with a key in one project.
pub struct Actor {
    pub principal: String,
    pub key_id: String,
    pub key: String,
}

/// Makes a member of this role and a key for it.
#[track_caller]
pub fn admit(owner: &Http, project: &str, name: &str, role: &str) -> Actor {
    let body = json!({ "name": name, "kind": "service", "role": role });
    let member = expect(&owner.post(&format!("/v1/projects/{project}/members"), body), 201);
    let principal = text(&member, "principal_id");
    let key = key_for(owner, project, &principal, json!({}));
    Actor { principal, key_id: text(&key, "id"), key: text(&key, "key") }
}

/// Makes a key for a member; `more` adds to the request.
#[track_caller]
pub fn key_for(owner: &Http, project: &str, principal: &str, more: Value) -> Value {
    let mut body = json!({ "name": "key", "principal_id": principal });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    expect(&owner.post(&format!("/v1/projects/{project}/api-keys"), body), 201)
}

#[track_caller]
pub fn make_project(operator: &Http, handle: &str) -> Value {
    expect(&operator.post("/v1/projects", json!({ "handle": handle })), 201)
}
