//! The first start, and the next.

use serde_json::json;

use crate::api::world::{ENVIRONMENTS, at, expect, names, text, walk};
use crate::support::Server;

#[test]
fn the_first_start_makes_the_project_the_key_and_the_environment_and_the_next_makes_nothing() {
    let mut server = Server::start();
    assert_eq!(std::fs::read_to_string(server.path().join("address")).unwrap().trim(), server.address);
    let http = server.http();
    let key = server.owner_key();
    assert!(key.starts_with("stk_"));
    let projects = walk(&http, "/v1/projects", 10);
    assert_eq!((projects.len(), text(&projects[0], "handle")), (1, "default".to_owned()));
    let environments = walk(&http, ENVIRONMENTS, 10);
    assert_eq!(names(&environments), ["local-default"]);
    assert_eq!((&environments[0]["template_id"], &environments[0]["status"]), (&json!("local-default"), &json!("ready")));
    expect(&http.delete(&at(&environments[0])), 200);
    let kept = expect(&http.post(ENVIRONMENTS, json!({ "name": "kept", "tags": { "a": "1" } })), 201);

    let directory = server.directory();
    assert_eq!(server.terminate(), Some(0));
    assert!(!directory.path().join("address").exists() && !directory.path().join("stead.sock").exists(), "nothing says that it still runs");
    let server = Server::builder().on(directory).start();
    assert_eq!(server.owner_key(), key, "the key is the same");
    let http = server.http();
    assert_eq!(expect(&http.get(&at(&kept)), 200), kept);
    assert_eq!(names(&walk(&http, ENVIRONMENTS, 10)), ["kept"], "who deletes it does not get it back");
    assert_eq!(walk(&http, "/v1/projects", 10), projects);
}
