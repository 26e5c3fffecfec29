//! From a name in a definition to a value in a program, and to nobody else.

use serde_json::json;

use super::place::{OTHER, Place, VALUE, backwards, command, contains, nowhere, set_by_hand};
use crate::api::world::{expect, refused, text};
use crate::leases::{Scene, act};
use crate::support::Server;

#[test]
fn a_value_reaches_the_process_and_is_written_down_nowhere() {
    let mut server = Server::start();
    set_by_hand(&server, "TOKEN", VALUE);
    let place = Place::new(&server, json!([{ "name": "TOKEN" }]));
    assert_eq!(expect(&place.http.get(&place.path("")), 200)["contains_secrets"], false);
    assert_eq!(place.works("printf %s \"$TOKEN\" | rev"), backwards(VALUE));
    assert_eq!(expect(&place.http.get(&place.path("")), 200)["contains_secrets"], true);
    assert_eq!(place.works("env | grep ^TOKEN="), "TOKEN=***TOKEN***\n");
    // While it runs, after a crash of the server, and when it is over.
    let process = place.begins(json!({ "argv": ["sh", "-c", "echo $TOKEN; read line; echo $TOKEN", "name", VALUE], "stdin": "open" }));
    let shown = expect(&place.http.get(&process), 200);
    assert_eq!(shown["argv"][4], "***TOKEN***", "{shown}");
    nowhere(&server, &[VALUE]);
    server.kill();
    nowhere(&server, &[VALUE]);
    let server = Server::builder().on(server.directory()).start();
    let place = Place { http: server.http(), id: place.id };
    place.tell(&process, "go\n");
    assert_eq!(place.waits(&process)["exit"]["code"], 0);
    assert_eq!(place.logs(&process), "***TOKEN***\n***TOKEN***\n");
    for page in ["/v1/projects/default/audit", "/v1/projects/default/secrets", &place.path(""), &place.path("/processes"), &process] {
        let reply = place.http.get(page);
        assert!(reply.status == 200 && !contains(&reply.body, VALUE), "{page}");
    }
    nowhere(&server, &[VALUE]);
    expect(&place.http.delete(&place.path("")), 200);
    nowhere(&server, &[VALUE]);
}

#[test]
fn what_is_missing_is_named_before_anything_starts_or_warned_of() {
    let server = Server::start();
    let place = Place::new(&server, json!([{ "name": "NEEDED" }]));
    let refusal = place.http.post(&place.path("/exec"), json!({ "command": ["touch", "ran"] }));
    assert_eq!(refused(&refusal, 409, "secret_missing")["name"], "NEEDED");
    assert_eq!(expect(&place.http.get(&place.path("/processes")), 200)["items"], json!([]));
    assert!(!server.path().join("run").read_dir().is_ok_and(|mut awake| awake.next().is_some()), "nothing was woken for it");
    command(&server, &["env", "bind-secret", "web", "NEEDED", "--optional"]);
    let started = expect(&place.http.post(&place.path("/processes"), json!({ "argv": ["sh", "-c", "test -z \"$NEEDED\""] })), 201);
    assert!(started["warnings"][0].as_str().is_some_and(|warning| warning.contains("NEEDED")), "{started}");
    assert_eq!(place.waits(&place.path(&format!("/processes/{}", text(&started, "id"))))["exit"]["code"], 0);
    expect(&place.http.delete(&place.path("")), 200);
}

#[test]
fn rotation_and_bindings_reach_the_next_process_and_what_was_known_stays_hidden() {
    let server = Server::start();
    set_by_hand(&server, "TOKEN", VALUE);
    let place = Place::new(&server, json!([{ "name": "TOKEN" }]));
    let old = place.begins(json!({ "argv": ["sh", "-c", "read line; echo $TOKEN $line"], "stdin": "open" }));
    set_by_hand(&server, "TOKEN", OTHER);
    assert_eq!(place.works("printf %s \"$TOKEN\" | rev"), backwards(OTHER));
    // The old value is still one, and who has it may be told the new one.
    place.tell(&old, &format!("{OTHER}\n"));
    place.waits(&old);
    assert_eq!(place.logs(&old), "***TOKEN*** ***TOKEN***\n");
    command(&server, &["env", "unbind-secret", "web", "TOKEN"]);
    assert_eq!(place.works("echo \"${TOKEN-none}\""), "none\n");
    nowhere(&server, &[VALUE, OTHER]);
    expect(&place.http.delete(&place.path("")), 200);
}

#[test]
fn whoever_no_longer_holds_the_environment_gets_no_secret() {
    let server = Server::start();
    set_by_hand(&server, "TOKEN", VALUE);
    let spec = json!({ "sandbox": { "network_access": "disabled" }, "secret_bindings": [{ "name": "TOKEN" }] });
    let scene = Scene::new(&server, spec);
    let lease = scene.acquire(&scene.ann, json!({ "bind": "token" }));
    let token = text(&lease, "token");
    assert_eq!(scene.printed(&scene.ann, Some(&token), "printf %s \"$TOKEN\" | rev"), backwards(VALUE));
    expect(&act(&scene.ann, &lease, "release", None, json!({})), 200);
    scene.acquire(&scene.ben, json!({}));
    refused(&scene.shell(&scene.ann, Some(&token), "printf %s \"$TOKEN\" | rev > stolen"), 412, "fence_stale");
    assert_eq!(scene.printed(&scene.ben, None, "ls"), "");
    nowhere(&server, &[VALUE]);
    expect(&scene.owner.delete(&scene.path("")), 200);
}
