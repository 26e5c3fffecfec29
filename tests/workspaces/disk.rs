//! `resources.disk_mb`: filled for real, told as a cause, and left again.

use std::sync::Arc;

use serde_json::{Value, json};

use super::limits::{end, enforcement};
use super::{Home, can_run};
use crate::api::world::expect;
use crate::support::Server;

fn spec(disk_mb: u64, access: &str) -> Value {
    json!({"sandbox": {"network_access": "disabled", "workspace_access": access, "resources": {"disk_mb": disk_mb}}})
}

/// Where the filesystem holds the bound, `quota` tries it.
#[expect(clippy::print_stderr, reason = "what was not run must be seen")]
fn is_watched(server: &Server) -> bool {
    let home = Home::new(server, "asked", spec(16, "rw"));
    let watched = enforcement(&home, "disk_mb") == "best_effort";
    if !watched {
        eprintln!("NOT RUN: the filesystem holds it, and nothing is watched");
    }
    watched
}

fn check(server: &Server) {
    if !can_run(server) || !is_watched(server) {
        return;
    }
    for (name, access, target) in [("plain", "rw", "/workspace"), ("layered", "cow", "/workspace"), ("beside", "none", "/runtime")] {
        let home = Home::new(server, name, spec(16, access));
        home.works(&format!("head -c 4M /dev/zero > {target}/kept"));
        let filled = end(&home, &format!("mkdir {target}/d; chmod 300 {target}/d; cat /dev/zero > {target}/d/file"));
        assert_eq!((&filled["cause"], &filled["limits_hit"]), (&json!("disk_full"), &json!(["disk"])), "{access}: {filled}");
        assert_eq!(end(&home, &format!("exec sh -c 'echo more > {target}/more'"))["cause"], "disk_full", "{access}");
        assert_eq!(
            home.works(&format!("cat {target}/kept | wc -c; chmod 700 {target}/d; rm -r {target}/d {target}/more")).trim(),
            "4194304"
        );
        home.works(&format!("head -c 4M /dev/zero > {target}/more"));
    }
    // What is in memory is no disk.
    let home = Home::new(server, "memory", spec(16, "rw"));
    home.works("head -c 32M /dev/zero > /tmp/file; sleep 0.2; rm /tmp/file");
}

#[test]
fn who_fills_it_is_ended_and_room_can_be_made() {
    check(&Server::start());
}

#[test]
fn the_same_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    std::os::unix::fs::chown(directory.path(), Some(5001), Some(5001)).unwrap();
    let wrapper = ["setpriv", "--reuid=5001", "--regid=5001", "--clear-groups", "--"];
    check(&Server::builder().on(directory).through(&wrapper).start());
}

#[test]
fn a_command_says_why_it_ended_and_what_helps() {
    let server = Server::start();
    if !can_run(&server) || !is_watched(&server) {
        return;
    }
    let home = Home::new(&server, "full", spec(8, "rw"));
    let run = |script: &str| {
        let output = server.command(&["run", "--env", "full", "--", "sh", "-c", script]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run("cat /dev/zero > file");
    assert_eq!(code, Some(137), "{said}");
    for part in ["(disk_full)", "no disk left", "sandbox.resources.disk_mb", "`rm`"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let (code, said) = run("cat file > other; exit 3");
    assert!(code == Some(3) && said.contains("nothing could be written"), "{code:?} {said}");
    assert_eq!(run("rm file other"), (Some(0), String::new()));
    // More room without removing anything.
    let _ = run("cat /dev/zero > file");
    assert_ne!(run("echo text > text").0, Some(0));
    expect(&home.http.patch(&home.path(""), json!({"spec": {"sandbox": {"resources": {"disk_mb": 100_000}}}})), 200);
    assert_eq!(run("echo text > text"), (Some(0), String::new()));
}
