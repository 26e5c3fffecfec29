//! A key with the project's handle appended.

use serde_json::json;

use super::cast::{admit, make_project};
use crate::api::world::expect;
use crate::support::Server;

#[test]
fn a_key_with_its_project_appended_works_and_with_another_one_does_not() {
    let server = Server::start();
    let operator = server.http();
    make_project(&operator, "other");
    let member = admit(&operator, "default", "member", "member");
    let with = |suffix: &str| server.http_as(Some(&format!("{}{suffix}", member.key)));

    for suffix in ["", ".default"] {
        expect(&with(suffix).get("/v1/projects/default"), 200);
        assert_eq!(expect(&with(suffix).get("/v1/identity"), 200)["project"], "default");
        assert_eq!(with(suffix).get("/v1/projects/other").status, 404, "a key reaches its own project only");
    }
    for suffix in [".other", ".nowhere", ".", "..default", ".default.other", ".other.default", ".DEFAULT", ". default"] {
        let reply = with(suffix).get("/v1/projects/default");
        assert_eq!((reply.status, &*reply.code()), (401, "unauthorized"), "{suffix}");
    }
    for spelled in ["bearer", "BEARER", "Bearer  "] {
        let header = format!("{spelled} {}", member.key);
        let reply = server.http_as(None).send("GET", "/v1/identity", &[("Authorization", &header)], None);
        assert_eq!(reply.status, 200, "{spelled:?}");
    }
    // The handle is what counts, also after the project was given another one.
    expect(&operator.patch("/v1/projects/default", json!({ "handle": "renamed" })), 200);
    assert_eq!(with(".default").get("/v1/projects/renamed").status, 401);
    expect(&with(".renamed").get("/v1/projects/renamed"), 200);
}

#[test]
fn the_operators_key_with_a_project_appended_is_held_to_that_project() {
    let server = Server::start();
    make_project(&server.http(), "other");
    let narrowed = server.http_as(Some(&format!("{}.default", server.owner_key())));
    expect(&narrowed.get("/v1/projects/default/api-keys"), 200);
    assert_eq!(narrowed.get("/v1/projects/other").status, 404);
    assert_eq!(narrowed.get("/v1/system").status, 403);
    assert_eq!(narrowed.post("/v1/projects", json!({ "handle": "third" })).status, 403);
    let listed = expect(&narrowed.get("/v1/projects"), 200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(server.http_as(Some(&format!("{}.other", server.owner_key()))).get("/v1/projects/other").status, 401);
}
