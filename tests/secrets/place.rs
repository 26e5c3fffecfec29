//! An environment with secrets, in a real sandbox.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::api::world::{ENVIRONMENTS, create, expect, text};
use crate::support::{Http, Server};

/// Long enough to be looked for, and with what encodings change.
pub const VALUE: &str = "s3cr3t/V@lue+&<tail>";
pub const OTHER: &str = "an0ther-Value=%\"quoted\"";

pub struct Place {
    pub http: Http,
    pub id: String,
}

impl Place {
    /// With these secrets bound.
    #[track_caller]
    pub fn new(server: &Server, bindings: Value) -> Self {
        Self::with(server, json!({ "sandbox": { "network_access": "disabled" }, "secret_bindings": bindings }))
    }

    #[track_caller]
    pub fn with(server: &Server, spec: Value) -> Self {
        let http = server.http();
        let made = create(&http, json!({ "name": "web", "spec": spec, "allow_unenforced": true }));
        Self { http, id: text(&made, "id") }
    }

    pub fn path(&self, rest: &str) -> String {
        format!("{ENVIRONMENTS}/{}{rest}", self.id)
    }

    /// Runs a script to its end inside, and gives what it printed on both streams.
    #[track_caller]
    pub fn works(&self, script: &str) -> String {
        let result = expect(&self.http.post(&self.path("/exec"), json!({ "command": ["sh", "-c", script] })), 200);
        assert_eq!(result["exit_code"], 0, "{script}: {result}");
        text(&result, "stdout") + &text(&result, "stderr")
    }

    /// Starts something that goes on, and gives its path.
    #[track_caller]
    pub fn begins(&self, body: Value) -> String {
        let process = expect(&self.http.post(&self.path("/processes"), body), 201);
        self.path(&format!("/processes/{}", text(&process, "id")))
    }

    #[track_caller]
    pub fn waits(&self, process: &str) -> Value {
        expect(&self.http.get(&format!("{process}/wait?timeout=60s")), 200)
    }

    /// Says something to a process that has heard nothing yet, and then nothing more.
    #[track_caller]
    pub fn tell(&self, process: &str, line: &str) {
        let told = self.http.send("POST", &format!("{process}/stdin?offset=0&end=true"), &[], Some(line.as_bytes()));
        assert_eq!(told.status, 200, "{}", String::from_utf8_lossy(&told.body));
    }

    pub fn logs(&self, process: &str) -> String {
        String::from_utf8(self.http.get(&format!("{process}/logs")).body).unwrap()
    }
}

/// Sets a secret as a person would.
#[track_caller]
pub fn set_by_hand(server: &Server, name: &str, value: &str) {
    let mut setting =
        server.command(&["secret", "set", name]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    setting.stdin.take().unwrap().write_all(format!("{value}\n").as_bytes()).unwrap();
    let said = setting.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(!contains(&said.stdout, value) && !contains(&said.stderr, value));
}

#[track_caller]
pub fn command(server: &Server, arguments: &[&str]) -> String {
    let said = server.command(arguments).output().unwrap();
    assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap() + &String::from_utf8(said.stderr).unwrap()
}

pub fn backwards(value: &str) -> String {
    value.chars().rev().collect()
}

pub fn contains(bytes: &[u8], value: &str) -> bool {
    bytes.windows(value.len()).any(|part| part == value.as_bytes())
}

/// No file of the server has any of these in it, byte by byte, nor does its log.
#[track_caller]
pub fn nowhere(server: &Server, values: &[&str]) {
    for value in values {
        let found = found_in(server.path(), value);
        assert!(found.is_empty(), "{found:?}");
        assert!(!server.log().contains(value), "the server's log has it");
    }
}

fn found_in(directory: &Path, value: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() {
            found.extend(found_in(&path, value));
        } else if kind.is_file() && std::fs::read(&path).is_ok_and(|bytes| contains(&bytes, value)) {
            found.push(path.display().to_string());
        }
    }
    found
}
