use serde_json::{Value, json};

use super::{Home, can_run};
use crate::api::world::{ENVIRONMENTS, expect, refused, text};
use crate::support::Server;

fn spec(script: &str) -> Value {
    json!({"sandbox": {"network_access": "disabled"}, "setup": {"script": script}})
}

#[test]
fn a_setup_script_runs_first_and_its_output_is_kept() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "web", spec("echo making; echo once >> made\n: \"$STEAD_WORKSPACE\""));
    assert_eq!(home.works("cat made"), "once\n");
    assert_eq!(home.works("cat made"), "once\n");
    let listed = expect(&home.http.get(&home.path("/processes")), 200);
    let setups: Vec<&Value> = listed["items"].as_array().unwrap().iter().filter(|process| process["purpose"] == "setup").collect();
    assert_eq!(setups.len(), 1);
    let logs = home.http.get(&home.path(&format!("/processes/{}/logs", text(setups[0], "id"))));
    assert_eq!(logs.body, b"making\n");
    let again = server.command(&["env", "setup", "web", "--again", "--json"]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(home.works("cat made"), "once\nonce\n");
    expect(&home.http.patch(&home.path(""), json!({"spec": {"env": {"A": "1"}}})), 200);
    expect(&home.http.post(&home.path("/wake"), json!({})), 200);
    assert_eq!(home.works("cat made"), "once\nonce\nonce\n");
}

#[test]
fn one_that_fails_is_mended_and_run_again() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "web", spec("exec 2>&1; echo looking; test -e given || { echo nothing given >&2; exit 4; }"));
    // Whoever hears of it, and whenever, is told to do the same.
    for (path, body) in [("/exec", json!({"command": ["true"]})), ("/wake", json!({})), ("/exec", json!({"command": ["true"]}))] {
        let details = refused(&home.http.post(&home.path(path), body), 409, "conflict");
        let advised = text(&details, "suggestion");
        assert!(advised.contains("mend the script, or what it needs, and run `stead env setup "), "{details}");
    }
    let seen = expect(&home.http.get(&home.path("")), 200);
    assert_eq!(seen["status"], "failed");
    assert!(text(&seen, "last_error").ends_with("exit code 4:\nlooking\nnothing given"), "{seen}");
    std::fs::write(home.directory("workspace").join("given"), "").unwrap();
    let mended = expect(&home.http.post(&home.path("/setup"), json!({})), 200);
    assert_eq!(mended["status"], "ready");
    home.works("true");
    // Longer than one argument may be.
    let long = format!("# {}\necho long > long", "x".repeat(200_000));
    expect(&home.http.patch(&home.path(""), json!({"spec": {"setup": {"script": long}}})), 200);
    assert_eq!(home.works("cat long"), "long\n");
}

#[test]
fn a_script_outlives_the_server_that_began_it() {
    let mut server = Server::start();
    if !can_run(&server) {
        return;
    }
    let http = server.http();
    let made =
        expect(&http.post(ENVIRONMENTS, json!({"name": "web", "spec": spec("echo begun >> made; sleep 3; echo done >> made")})), 201);
    let id = text(&made, "id");
    let path = format!("{ENVIRONMENTS}/{id}/processes");
    let asked = {
        let (http, path) = (server.http(), path);
        std::thread::spawn(move || std::panic::catch_unwind(|| http.post(&path, json!({"argv": ["true"]})).status))
    };
    let workspace = server.path().join("sandboxes").join(text(&made, "sandbox_id")).join("workspace");
    let begun = std::time::Instant::now();
    while !workspace.join("made").exists() {
        assert!(begun.elapsed().as_secs() < 20, "the script begins");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let directory = server.directory();
    server.kill();
    let _ = asked.join();
    let next = Server::builder().on(directory).start();
    let home = Home { http: next.http(), server: &next, id, sandbox: text(&made, "sandbox_id") };
    assert_eq!(home.works("cat made"), "begun\ndone\n");
}
