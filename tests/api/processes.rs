//! Processes in real sandboxes, through the real server.

use std::io::Write;

use serde_json::{Value, json};

use super::world::{at, create, expect, refused, text};
use crate::support::{Http, Server};

/// An environment that runs something here; none, said aloud, on a machine that cannot make one.
fn usable(http: &Http) -> Option<String> {
    let path = at(&create(http, json!({ "name": "works" })));
    let tried = http.post(&format!("{path}/exec"), json!({ "command": ["true"] }));
    if tried.status == 409 && tried.code() == "posture_not_enforced" {
        let _ = writeln!(std::io::stderr(), "not run: {}", String::from_utf8_lossy(&tried.body));
        return None;
    }
    expect(&tried, 200);
    Some(path)
}

fn exec(http: &Http, path: &str, body: Value) -> Value {
    expect(&http.post(&format!("{path}/exec"), body), 200)
}

#[test]
fn a_command_is_answered_as_published() {
    let server = Server::start();
    let http = server.http();
    let Some(path) = usable(&http) else { return };
    let told = exec(&http, &path, json!({ "command": ["sh", "-c", "echo $A; pwd; echo no >&2; exit 3"], "env": ["A=b c"] }));
    assert_eq!(told, json!({ "stdout": "b c\n/workspace\n", "stderr": "no\n", "exit_code": 3 }));
    assert_eq!(exec(&http, &path, json!({ "command": ["cat"], "stdin": "größe" }))["stdout"], "größe");
    exec(&http, &path, json!({ "command": ["mkdir", "sub"] }));
    assert_eq!(exec(&http, &path, json!({ "command": ["pwd"], "dir": "sub" }))["stdout"], "/workspace/sub\n");
    assert_eq!(exec(&http, &path, json!({ "command": ["sh", "-c", "kill -9 $$"] }))["exit_code"], 137);
    refused(&http.post(&format!("{path}/exec"), json!({ "command": ["no-such-program"] })), 409, "program_not_found");
    refused(&http.post(&format!("{path}/exec"), json!({ "command": ["true"], "dir": "nowhere" })), 409, "directory_not_found");
    // The same request twice runs once.
    let append = json!({ "command": ["sh", "-c", "echo x >> count; wc -l < count"] }).to_string();
    let once = || http.send("POST", &format!("{path}/exec"), &[("Idempotency-Key", "append")], Some(append.as_bytes()));
    assert_eq!(expect(&once(), 200), expect(&once(), 200));
    assert_eq!(exec(&http, &path, json!({ "command": ["cat", "count"] }))["stdout"], "x\n");
    expect(&http.delete(&path), 200);
}

#[test]
fn a_process_outlives_a_server_that_is_killed() {
    let mut server = Server::start();
    let http = server.http();
    let Some(path) = usable(&http) else { return };
    let script = "for number in 1 2 3 4 5 6; do echo $number; sleep 0.3; done; exit 7";
    let process = expect(&http.post(&format!("{path}/processes"), json!({ "argv": ["sh", "-c", script] })), 201);
    let process = format!("{path}/processes/{}", text(&process, "id"));
    server.kill();
    let server = Server::builder().on(server.directory()).start();
    let http = server.http();
    let over = expect(&http.get(&format!("{process}/wait?timeout=30s")), 200);
    assert_eq!((over["status"].as_str(), over["exit"]["code"].as_i64()), (Some("exited"), Some(7)), "{over}");
    let logs = http.get(&format!("{process}/logs"));
    assert_eq!((logs.status, &*logs.body), (200, &b"1\n2\n3\n4\n5\n6\n"[..]), "not a byte is missing");
    assert_eq!(logs.header("stead-next-offset"), Some("12"));
    assert_eq!(http.get(&format!("{process}/logs?follow=true&offset=10")).body, b"6\n");
    assert_eq!(expect(&http.delete(&process), 200)["exit"]["code"], 7);
    assert_eq!(http.get(&process).status, 404);
    expect(&http.delete(&path), 200);
}

#[test]
fn what_runs_ends_with_its_environment() {
    let server = Server::start();
    let http = server.http();
    let Some(path) = usable(&http) else { return };
    let start = || text(&expect(&http.post(&format!("{path}/processes"), json!({ "argv": ["sleep", "1000"] })), 201), "id");
    let first = start();
    let details = refused(&http.send("POST", &format!("{path}/sleep"), &[], None), 409, "conflict");
    assert_eq!(details["processes"], 1);
    expect(&http.post(&format!("{path}/sleep"), json!({ "force": true })), 200);
    let over = expect(&http.get(&format!("{path}/processes/{first}")), 200);
    assert_eq!(over["exit"]["cause"], "signaled", "{over}");
    let second = start();
    assert_eq!(expect(&http.delete(&path), 200)["status"], "destroyed");
    let over = expect(&http.get(&format!("{path}/processes/{second}")), 200);
    assert_eq!((over["status"].as_str(), over["exit"]["signal"].as_i64()), (Some("exited"), Some(9)), "{over}");
    refused(&http.post(&format!("{path}/processes"), json!({ "argv": ["true"] })), 409, "environment_destroyed");
}
