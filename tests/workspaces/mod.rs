//! What happens to the files of an environment, and to what leaves it, with real programs inside.

mod changes;
mod disk;
mod egress;
mod files;
mod hostile;
mod image;
mod limits;
mod ports;
mod quota;
mod setup;
mod trees;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::api::world::{ENVIRONMENTS, create, expect, text};
use crate::support::{Http, Reply, Server};

/// An environment for one test. It is deleted at the end, so that nothing of it runs on.
pub struct Home<'a> {
    server: &'a Server,
    pub http: Http,
    id: String,
    sandbox: String,
}

impl<'a> Home<'a> {
    pub fn new(server: &'a Server, name: &str, spec: Value) -> Self {
        let http = server.http();
        let made = create(&http, json!({"name": name, "spec": spec}));
        Self { server, http, id: text(&made, "id"), sandbox: text(&made, "sandbox_id") }
    }

    pub fn path(&self, rest: &str) -> String {
        format!("{ENVIRONMENTS}/{}{rest}", self.id)
    }

    /// Runs a script to its end inside, and gives what `exec` says of it.
    #[track_caller]
    pub fn shell(&self, script: &str) -> Value {
        expect(&self.http.post(&self.path("/exec"), json!({"command": ["sh", "-c", script]})), 200)
    }

    #[track_caller]
    pub fn works(&self, script: &str) -> String {
        let result = self.shell(script);
        assert_eq!(result["exit_code"], 0, "{result}");
        text(&result, "stdout")
    }

    fn directory(&self, part: &str) -> PathBuf {
        self.server.path().join("sandboxes").join(&self.sandbox).join(part)
    }
}

impl Drop for Home<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            expect(&self.http.delete(&self.path("")), 200);
        } else {
            let _ = self.http.delete(&self.path(""));
        }
    }
}

/// Whether this machine can make places at all; says so where it cannot.
pub fn can_run(server: &Server) -> bool {
    let http = server.http();
    let made = create(&http, json!({"name": "probe", "spec": {"sandbox": {"network_access": "disabled"}}, "allow_unenforced": true}));
    let path = format!("{ENVIRONMENTS}/{}", text(&made, "id"));
    let reply = http.post(&format!("{path}/wake"), json!({}));
    http.delete(&path);
    if reply.status != 200 {
        not_run(&reply);
    }
    reply.status == 200
}

#[expect(clippy::print_stderr, reason = "what was not run must be seen")]
fn not_run(reply: &Reply) {
    eprintln!("NOT RUN: this machine cannot: {}", String::from_utf8_lossy(&reply.body));
}
