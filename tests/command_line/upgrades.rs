//! A server of another version than the keepers that it finds.

use super::desk::Desk;
use super::run::until;
use crate::support::Server;

const SCRIPT: &str = "echo before; while [ ! -e go ]; do sleep 0.1; done; echo after; exit 5";

/// A desk with a command that was started by a server of that version, and now a server of ours.
fn upgraded_from(protocol: u32) -> (Desk, String) {
    let variable = format!("STEAD_PLACE_PROTOCOL={protocol}");
    let mut desk = Desk::with(Server::builder().through(&["env", "USER=olivia", &variable]).start());
    let id = desk.done(&["run", "--detach", "--", "sh", "-c", SCRIPT]).trim().to_owned();
    until("it has begun", || desk.done(&["logs", &id]) == "before\n");
    let directory = desk.server().directory();
    desk.server_mut().kill();
    *desk.server_mut() = Server::builder().on(directory).start();
    (desk, id)
}

#[test]
fn what_runs_under_the_last_version_goes_on_to_its_end() {
    let (desk, id) = upgraded_from(stead_place::protocol::LAST);
    let environment = desk.json(&["ps"])["items"][0]["environment_id"].as_str().unwrap().to_owned();
    assert_eq!(desk.json(&["env", "view", &environment])["runtime"]["draining"], true);
    assert!(desk.done(&["env", "view", &environment]).contains("draining"));
    assert!(desk.done(&["top", "--once"]).contains("draining"));
    let refused = desk.error(&["run", "--json", "--", "true"]);
    assert_eq!((&refused["code"], &refused["details"]["processes"][0]), (&"environment_draining".into(), &id.as_str().into()));
    assert!(refused["details"]["suggestion"].as_str().unwrap().contains("stead env stop"), "{refused}");
    let follower = desk.command(&["attach", "--since", "0", &id]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    desk.write("go", "");
    let followed = follower.wait_with_output().unwrap();
    assert_eq!((followed.status.code(), followed.stdout.as_slice()), (Some(5), &b"before\nafter\n"[..]));
    assert_eq!(desk.done(&["run", "--", "echo", "new"]), "new\n");
    assert!(desk.json(&["env", "view", &environment])["runtime"].get("draining").is_none());
}

#[test]
fn what_runs_under_a_version_that_nobody_knows_is_read_and_can_be_ended() {
    let (desk, id) = upgraded_from(stead_place::protocol::PROTOCOL + 1);
    let listed = desk.json(&["ps"]);
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["status"]), (&id.as_str().into(), &"running".into()));
    let environment = listed["items"][0]["environment_id"].as_str().unwrap().to_owned();
    assert_eq!(desk.done(&["logs", &id]), "before\n");
    assert_eq!(desk.error(&["kill", &id])["code"], "environment_draining");
    assert_eq!(desk.error(&["run", "--json", "--", "true"])["code"], "environment_draining");
    desk.done(&["env", "stop", &environment]);
    let all = desk.json(&["ps", "--all"]);
    let ended = all["items"].as_array().unwrap().iter().find(|it| it["id"] == id.as_str()).unwrap();
    assert_eq!(ended["exit"]["cause"], "lost");
    assert_eq!(desk.done(&["run", "--", "echo", "new"]), "new\n");
}
