//! Everything that the server writes down or tells while a value is known to it. What a process prints is taken care of by its steward.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::api::world::{ENVIRONMENTS, create, expect, text};
use crate::support::{Http, Reply, Server};

/// With characters that are written differently wherever it is quoted.
const VALUE: &str = "sk-Zq7\"w9X/rT4+uK2'mN8";
const SHOWN: &str = "***API_KEY***";

/// The value as it may be found somewhere.
fn forms() -> Vec<String> {
    vec![
        VALUE.to_owned(),
        // In JSON, in a URL, and in base64 behind no, one and two other bytes, without the digits that it shares with them.
        VALUE.replace('"', "\\\""),
        VALUE.replace('"', "%22").replace('/', "%2F").replace('+', "%2B").replace('\'', "%27"),
        "c2stWnE3Inc5WC9yVDQrdUsyJ21OO".to_owned(),
        "NrLVpxNyJ3OVgvclQ0K3VLMidtTj".to_owned(),
        "zay1acTcidzlYL3JUNCt1SzInbU44".to_owned(),
    ]
}

#[track_caller]
fn nothing_in(bytes: &[u8], what: &str) {
    for form in forms() {
        let found = bytes.windows(form.len()).position(|window| window == form.as_bytes());
        if let Some(at) = found {
            let around = &bytes[at.saturating_sub(80)..(at + form.len() + 40).min(bytes.len())];
            panic!("{what} holds `{form}`: {}", String::from_utf8_lossy(around));
        }
    }
}

#[track_caller]
fn clean(reply: &Reply, status: u16) -> Value {
    nothing_in(&reply.body, "a reply");
    expect(reply, status)
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// An environment that gets the value in a variable.
fn bound(server: &Server, spec: Value) -> (Http, String) {
    let http = server.http();
    let body = json!({"value": VALUE}).to_string();
    let json = [("Content-Type", "application/json")];
    clean(&http.send("PUT", "/v1/projects/default/secrets/API_KEY", &json, Some(body.as_bytes())), 201);
    let mut whole =
        json!({"sandbox": {"network_access": "disabled"}, "secret_bindings": [{"name": "API_KEY", "required": true, "delivery": "env"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let made = create(&http, json!({"name": "web", "spec": whole, "allow_unenforced": true}));
    (http, format!("{ENVIRONMENTS}/{}", text(&made, "id")))
}

/// What is told of everything that ever ran there, and of who did it.
#[track_caller]
fn told(http: &Http, path: &str) -> String {
    let mut all = String::new();
    for path in [path.to_owned(), format!("{path}/processes"), "/v1/projects/default/audit".to_owned()] {
        all.push_str(&clean(&http.get(&path), 200).to_string());
    }
    all
}

#[test]
fn a_value_that_a_caller_puts_into_a_request_is_written_down_nowhere() {
    let mut server = Server::start();
    if !crate::workspaces::can_run(&server) {
        return;
    }
    let (http, path) = bound(&server, json!({}));
    let start = |argv: Value, cwd: Option<&str>, key: &str| {
        let body = json!({"argv": argv, "cwd": cwd});
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        http.send("POST", &format!("{path}/processes"), &headers, Some(body.to_string().as_bytes()))
    };
    // Arguments, in every form: the process gets them as they are, and nobody else does.
    let mut argv = vec!["sh".to_owned(), "-c".to_owned(), "test \"$1\" = \"$API_KEY\"".to_owned(), "sh".to_owned()];
    argv.extend(forms());
    argv.push(format!("Authorization: Bearer {VALUE}"));
    let begun = clean(&start(json!(argv), None, "one"), 201);
    assert_eq!(begun["argv"][4], SHOWN, "{begun}");
    assert_eq!(begun["argv"][10], format!("Authorization: Bearer {SHOWN}"), "{begun}");
    // The same again is told the same.
    assert_eq!(text(&clean(&start(json!(argv), None, "one"), 201), "id"), text(&begun, "id"));
    let over = clean(&http.get(&format!("{path}/processes/{}", text(&begun, "id"))), 200);
    assert_eq!(over["argv"], begun["argv"]);
    let ended = clean(&http.post(&format!("{path}/exec"), json!({"command": argv})), 200);
    assert_eq!(ended["exit_code"], 0, "the process did not get the value as it is: {ended}");

    // Programs and directories that are not there: the error, its details, the process's own error, and what is audited.
    for (argv, cwd, key) in [(json!([format!("/nowhere/{VALUE}")]), None, "two"), (json!(["true"]), Some(VALUE), "three")] {
        let reply = start(argv, cwd, key);
        nothing_in(&reply.body, "an error");
        nothing_in(&start(json!(["true"]), None, key).body, "a repetition");
    }
    let seen = told(&http, &path);
    assert!(seen.contains(SHOWN), "{seen}");

    // Where there is nothing, with the value in the path and in the query; and in a field that is none.
    http.get(&format!("/v1/projects/default/nothing/{}?key={}", "sk-Zq7%22w9X%2FrT4%2BuK2%27mN8", "sk-Zq7%22w9X%2FrT4%2BuK2%27mN8"));
    http.get(&format!("{path}/processes?cursor={}", "sk-Zq7%22w9X%2FrT4%2BuK2%27mN8"));
    clean(&http.delete(&path), 200);
    server.terminate();
    nothing_in(server.log().as_bytes(), "the server's log");
    let mut all = Vec::new();
    files(server.path(), &mut all);
    assert!(all.iter().any(|file| file.ends_with("stead.db")), "{all:?}");
    for file in all {
        nothing_in(&std::fs::read(&file).unwrap(), &file.display().to_string());
    }
}

#[test]
fn a_refused_value_is_not_in_the_refusal() {
    let server = Server::start();
    let http = server.http();
    let json = [("Content-Type", "application/json")];
    // Both at once, the wrong type, an unknown field, a name that is none, no base64, broken JSON.
    let bodies = [
        ("API_KEY", json!({"value": VALUE, "value_base64": VALUE}).to_string()),
        ("API_KEY", json!({"value": [VALUE]}).to_string()),
        ("API_KEY", json!({"valeu": VALUE}).to_string()),
        ("api-key", json!({"value": VALUE}).to_string()),
        ("API_KEY", json!({"value_base64": VALUE}).to_string()),
        ("API_KEY", format!("{{\"value\": {}", json!(VALUE))),
        ("API_KEY", json!({"value": VALUE.repeat(5000)}).to_string()),
    ];
    for (name, body) in bodies {
        let reply = http.send("PUT", &format!("/v1/projects/default/secrets/{name}"), &json, Some(body.as_bytes()));
        assert!((400..500).contains(&reply.status), "{body} was answered {}", reply.status);
        nothing_in(&reply.body, "a refusal");
    }
    nothing_in(server.log().as_bytes(), "the server's log");
}

#[test]
fn a_value_is_returned_by_no_route_of_secrets() {
    let server = Server::start();
    let (http, _) = bound(&server, json!({}));
    for path in ["secrets", "secrets/API_KEY", "secrets/API_KEY/versions", "audit", "environments"] {
        clean(&http.get(&format!("/v1/projects/default/{path}")), 200);
    }
    clean(&http.delete("/v1/projects/default/secrets/API_KEY"), 204);
    nothing_in(server.log().as_bytes(), "the server's log");
}
