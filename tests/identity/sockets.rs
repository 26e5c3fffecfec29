//! The ways in: the unix socket without a key for whom it is sure of, TCP on loopback only.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Server, stead};

/// A client command through another program, such as `unshare`.
fn through(server: &Server, wrapper: &[&str], arguments: &[&str]) -> Output {
    let plain = stead();
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).arg(plain.get_program()).arg("--data-dir").arg(server.path()).args(arguments);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().unwrap_or_else(|error| panic!("{wrapper:?}: {error}"))
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

const WHO: [&str; 3] = ["http", "GET", "/v1/identity"];

#[test]
fn the_socket_knows_its_user_without_a_key() {
    let server = Server::start();
    let output = server.command(&WHO).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let me = answer(&output);
    assert_eq!((&me["operator"], me.get("project")), (&Value::Bool(true), None));
    assert_eq!(me["principal_id"], server.http().get("/v1/identity").json()["principal_id"], "the same as by the owner's key");
    // A credential that is sent decides alone: a wrong one is not forgiven for coming over the socket.
    let output = server.command(&WHO).env("STEAD_API_KEY", format!("stk_{}", "a".repeat(52))).output().unwrap();
    assert_eq!((output.status.code(), &answer(&output)["error"]["code"]), (Some(5), &Value::from("unauthorized")));
}

#[test]
fn a_peer_in_another_namespace_is_refused_without_a_key() {
    let server = Server::start();
    let mut wrappers = vec![vec!["unshare", "--user", "--map-root-user"], vec!["unshare", "--user", "--map-root-user", "--pid", "--fork"]];
    if rustix::process::geteuid().is_root() {
        wrappers.push(vec!["unshare", "--pid", "--fork"]);
    }
    assert!(through(&server, &["env"], &WHO).status.success(), "the probe itself works");
    for wrapper in &wrappers {
        let output = through(&server, wrapper, &WHO);
        let body = answer(&output);
        assert_eq!((output.status.code(), &body["error"]["code"]), (Some(5), &Value::from("unauthorized")), "{wrapper:?}: {body}");
        // The reason is said, and nothing is done.
        assert!(body["error"]["message"].as_str().unwrap().contains("socket"), "{body}");
        let output = through(&server, wrapper, &["env", "create", "from-inside"]);
        assert_eq!(output.status.code(), Some(5));
        // With a key it is as welcome as from anywhere, and what needs none is open.
        let key_file = server.path().join("owner.key");
        let output = through(&server, wrapper, &[&["--key-file", key_file.to_str().unwrap()], &WHO[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(through(&server, wrapper, &["http", "GET", "/healthz"]).status.success());
    }
    assert_eq!(server.http().get("/v1/projects/default/environments?name=from-inside").json()["items"], Value::Array(Vec::new()));
}

#[test]
fn allowing_unsandboxed_code_ends_keyless_access() {
    let server = Server::builder().with(&["--allow-unsandboxed"]).start();
    let output = server.command(&WHO).output().unwrap();
    let body = answer(&output);
    assert_eq!((output.status.code(), &body["error"]["code"]), (Some(5), &Value::from("unauthorized")), "{body}");
    assert!(body["error"]["details"]["suggestion"].as_str().unwrap().contains("owner.key"), "{body}");
    let key_file = server.path().join("owner.key");
    let output = server.command(&[&["--key-file", key_file.to_str().unwrap()], &WHO[..]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_socket_and_the_key_are_its_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start();
    for name in ["stead.sock", "owner.key", "master.key", "address", "host.id"] {
        let mode = std::fs::metadata(server.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name} has {mode:o}");
    }
    let place = std::fs::read_dir(server.path().join("sandboxes")).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap();
    assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

/// Starts a server with this address in place of the loopback one that tests use.
fn start_on(address: &str, more: &[&str]) -> Result<Server, (i32, String)> {
    // An option may stand once: a script in between puts this address where the loopback one stood.
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("wrapper");
    let body = format!("#!/bin/sh\nprogram=$1\nshift 4\nexec \"$program\" serve --listen {address} \"$@\"\n");
    std::fs::write(&script, body).unwrap();
    Server::builder().through(&["sh", script.to_str().unwrap()]).with(more).try_start()
}

#[test]
fn plain_http_leaves_the_machine_only_when_the_operator_says_so() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let Err((status, said)) = start_on(address, &[]) else { panic!("it listens on {address}") };
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("--tls-cert") && said.contains("--insecure-http"), "{said}");
    }
    let server = start_on("0.0.0.0:0", &["--insecure-http"]).unwrap_or_else(|(_, said)| panic!("{said}"));
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    assert_eq!(crate::support::Http::new(&format!("127.0.0.1:{port}"), None).get("/healthz").status, 200);
    for loopback in ["127.0.0.1:0", "127.0.0.2:0"] {
        start_on(loopback, &[]).unwrap_or_else(|(_, said)| panic!("{said}"));
    }
}
