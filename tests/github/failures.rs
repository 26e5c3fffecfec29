//! What GitHub may answer, and what becomes of a process then.

use serde_json::json;

use super::{Scene, make, repos, with_app};
use crate::api::world::{ENVIRONMENTS, expect, refused, text};
use crate::support::Server;
use crate::support::github::{AppKey, FakeGithub, Fault, NOT_THERE};

fn fault(status: u16, message: &'static str, times: u32) -> Fault {
    Fault { status, message, headers: Vec::new(), times }
}

#[test]
fn each_refusal_has_its_own_code_and_says_what_github_said() {
    let scene = Scene::new(&["acme/web"]);
    let cases = [
        (fault(403, "This installation has been suspended", 1), 409, "github_forbidden"),
        (fault(404, "Not Found", 1), 409, "github_not_installed"),
        (fault(422, NOT_THERE, 1), 409, "github_repository_missing"),
        (fault(422, "The permissions requested are not granted to this installation.", 1), 409, "github_repository_missing"),
        (fault(503, "Unavailable", 3), 502, "github_failed"),
        (fault(302, "Found", 3), 502, "github_failed"),
    ];
    for (fault, status, code) in cases {
        let said = fault.message;
        scene.github.state().fault = Some(fault);
        let reply = scene.http.post(&scene.at("/processes"), json!({ "argv": ["true"] }));
        refused(&reply, status, code);
        let message = text(&reply.json()["error"], "message");
        assert!(code == "github_failed" || message.contains(said), "{message}");
        let left = scene.github.state().fault.take().unwrap().times;
        assert_eq!(left, if said == "Found" { 2 } else { 0 }, "only what may change is tried again: {said}");
    }
    assert_eq!(scene.minted(), 0);
    // Nothing of it lasts.
    scene.token_of_process(&[]);
}

#[test]
fn what_may_pass_is_tried_again() {
    let scene = Scene::new(&["acme/web"]);
    scene.github.state().fault = Some(fault(502, "Bad Gateway", 2));
    scene.token_of_process(&[]);
    for headers in [vec![("Retry-After", "1".to_owned())], vec![("Retry-After", "1".to_owned()), ("X-RateLimit-Remaining", "0".to_owned())]]
    {
        scene.github.state().fault = Some(Fault { headers, ..fault(403, "You have exceeded a secondary rate limit", 1) });
        scene.credential_token("acme/web", "push");
        expect(&scene.http.patch(&scene.path, json!({ "purpose": "review" })), 200);
    }
    // A limit of an hour is not waited for, and may be otherwise later.
    scene.github.state().fault =
        Some(Fault { headers: vec![("X-RateLimit-Remaining", "0".to_owned())], ..fault(403, "API rate limit exceeded", 1) });
    let reply = scene.credential("acme/web", "clone", &[]);
    assert_eq!(refused(&reply, 502, "github_failed")["recoverable"], true);
}

#[test]
fn a_clock_that_is_wrong_is_set_right_by_githubs_own_once() {
    let scene = Scene::new(&["acme/web"]);
    scene.github.state().ahead = 3600;
    scene.credential_token("acme/web", "clone");
    assert_eq!(scene.github.state().unbelieved, 1);
    scene.github.state().ahead = -3600;
    scene.credential_token("acme/web", "push");
    assert_eq!(scene.github.state().unbelieved, 2);
}

#[test]
fn another_key_than_the_apps_is_told_so() {
    let scene = Scene::new(&["acme/web"]);
    scene.github.trust(&AppKey::make());
    let reply = scene.http.post(&scene.at("/processes"), json!({ "argv": ["true"] }));
    refused(&reply, 502, "github_app_rejected");
    assert_eq!(scene.github.state().unbelieved, 2, "once more, and no more");
    let held = scene.http.get(&scene.at("/processes"));
    assert!(expect(&held, 200)["items"].as_array().unwrap().iter().all(|process| process["status"] != "running"));
}

#[test]
fn a_github_that_is_not_there_is_told_so() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let http = server.http();
    let made = expect(&make(&http, "web", &json!({ "repos": repos(&["acme/web"]) })), 201);
    let directory = server.directory();
    drop(server);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = with_app(&github, &github.key).env("GITHUB_API_URL", &format!("http://{closed}")).on(directory).start();
    let path = format!("{ENVIRONMENTS}/{}/git/credentials", text(&made, "id"));
    refused(&server.http().post(&path, json!({ "repo_full_name": "acme/web" })), 502, "github_failed");
}

#[test]
fn a_server_with_half_an_app_or_a_wrong_key_does_not_start() {
    let key = AppKey::make();
    let cut: String = key.older.lines().take(5).collect::<Vec<_>>().join("\n");
    for (variables, said) in [
        (vec![("GITHUB_APP_ID", "1")], "GITHUB_APP_PRIVATE_KEY is not"),
        (vec![("GITHUB_APP_PRIVATE_KEY", key.older.as_str())], "GITHUB_APP_ID is not"),
        (vec![("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY", cut.as_str())], "cannot be used as the private key"),
        (vec![("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY", "/nowhere.pem")], "cannot be used as the private key"),
        (
            vec![("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY", key.older.as_str()), ("GITHUB_URL", "http://github.example")],
            "must be https",
        ),
        (vec![("GITHUB_APP_ID", "1"), ("GITHUB_APP_PRIVATE_KEY", key.older.as_str()), ("GITHUB_APP_CLIENT_ID", "x")], "go together"),
    ] {
        let builder = variables.iter().fold(Server::builder(), |builder, (name, value)| builder.env(name, value));
        let (status, stderr) = builder.try_start().err().expect("it does not start");
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
        let line = key.older.lines().nth(1).unwrap();
        assert!(!stderr.contains(line), "the key is not shown");
    }
}
