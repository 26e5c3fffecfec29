//! What the host keeps from being held: refused with the reason, said in the posture, and left out only where the caller accepts that.

use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{ENVIRONMENTS, at, create, expect, message, refused};
use crate::support::Server;

const LIMIT: &str = "sandbox.resources.memory_mb";

fn limited(allow_unenforced: bool) -> Value {
    json!({ "spec": { "sandbox": { "network_access": "disabled", "resources": { "memory_mb": 256 } } }, "allow_unenforced": allow_unenforced })
}

fn field(environment: &Value, name: &str) -> Value {
    let fields = environment["runtime"]["posture"].as_array().unwrap();
    fields.iter().find(|field| field["field"] == name).unwrap_or_else(|| panic!("no {name} in {environment}")).clone()
}

/// A server of an ordinary user, who has no cgroup to divide; none where the tests are not run by root, who alone can be somebody else.
fn of_an_ordinary_user() -> Option<Server> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let directory = tempfile::Builder::new().prefix("stead-user-").tempdir().unwrap();
    chown(directory.path(), Some(5001), Some(5001)).unwrap();
    // Wherever the program was built, others may not reach it.
    let program = directory.path().join("program");
    std::fs::copy(env!("CARGO_BIN_EXE_stead"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!("shift; exec setpriv --reuid=5001 --regid=5001 --clear-groups {} \"$@\"", program.display());
    Some(Server::builder().on(Arc::new(directory)).through(&["sh", "-c", &script, "sh"]).start())
}

#[test]
fn a_limit_that_the_host_does_not_let_be_held_is_unavailable() {
    let Some(server) = of_an_ordinary_user() else {
        println!("not run: only root can try what another user can do");
        return;
    };
    let http = server.http();
    let listed = expect(&http.get("/v1/projects/default/providers"), 200);
    let local = listed["items"].as_array().unwrap().iter().find(|provider| provider["name"] == "local").unwrap().clone();
    if local["capabilities"]["fields"][LIMIT]["*"] == "enforced" {
        println!("not run: a cgroup is delegated to everybody here");
        return;
    }
    let reason = &local["capabilities"]["reasons"][LIMIT]["*"];
    let reply = http.post(ENVIRONMENTS, limited(false));
    let details = refused(&reply, 409, "posture_not_enforced");
    assert_eq!((&details["field"], &details["enforcement"]), (&json!(format!("spec.{LIMIT}")), &json!("unavailable")));
    assert_eq!(&details["reason"], reason);
    assert!(details["suggestion"].as_str().unwrap().contains("stead doctor --fix"), "{details}");
    assert!(message(&reply).contains(reason.as_str().unwrap()), "{}", message(&reply));

    // Who accepts it gets the rest, and is told.
    let environment = create(&http, limited(true));
    let expected = json!({ "field": LIMIT, "declared": "256", "enforcement": "unavailable", "reason": reason });
    assert_eq!(field(&environment, LIMIT), expected);
    assert_eq!(field(&expect(&http.get(&at(&environment)), 200), LIMIT), expected);
    let posture = expect(&http.get(&format!("{}/posture", at(&environment))), 200);
    assert!(posture["fields"].as_array().unwrap().contains(&expected), "{posture}");
    let done = expect(&http.post(&format!("{}/exec", at(&environment)), json!({ "command": ["echo", "inside"] })), 200);
    assert_eq!((&done["exit_code"], &done["stdout"]), (&json!(0), &json!("inside\n")));
}

#[test]
fn where_no_place_can_be_made_the_server_runs_and_makes_no_environment() {
    let none = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    let server = Server::builder().through(&["unshare", "--user", "--map-root-user", "sh", "-c", none, "sh"]).start();
    let http = server.http();
    let reply = http.post(ENVIRONMENTS, json!({}));
    let details = refused(&reply, 409, "posture_not_enforced");
    assert_eq!((&details["field"], &details["enforcement"]), (&json!("spec.sandbox.mode"), &json!("unavailable")));
    assert!(message(&reply).contains("user.max_user_namespaces is 0"), "{}", message(&reply));
    assert!(!message(&reply).contains(server.path().to_str().unwrap()), "{}", message(&reply));
    assert!(details["suggestion"].as_str().unwrap().contains("stead doctor --fix"), "{details}");
    assert_eq!(expect(&http.get(ENVIRONMENTS), 200)["items"], json!([]), "not even the one that the first start makes");
    // The same program on a host that can: what was found before does not stay.
    let directory = server.directory();
    drop(server);
    let server = Server::builder().on(directory).start();
    create(&server.http(), json!({ "name": "web" }));
    assert_eq!(expect(&server.http().get(ENVIRONMENTS), 200)["items"].as_array().unwrap().len(), 2);
}

#[test]
fn what_was_found_is_kept_for_the_next_start() {
    let server = Server::start();
    create(&server.http(), json!({}));
    let kept: Value = serde_json::from_slice(&std::fs::read(server.path().join("abilities.json")).unwrap()).unwrap();
    assert_eq!(kept["kernel"].as_str().unwrap(), rustix::system::uname().release().to_str().unwrap());
    let mut names: Vec<_> = kept["abilities"].as_array().unwrap().iter().map(|ability| ability["name"].clone()).collect();
    names.dedup();
    assert_eq!(names.len(), 12, "{kept}");
    let left = std::fs::read_dir(server.path()).unwrap().filter_map(Result::ok);
    assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(".place-check")));
}
