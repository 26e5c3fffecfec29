//! Tokens for repositories, from a GitHub of the test's own, through the real binary and a real git server.

mod credentials;
mod failures;
mod inside;
mod minting;
mod proof;
mod secrecy;
mod signing_in;

use serde_json::{Value, json};

use crate::api::world::{ENVIRONMENTS, expect, text};
use crate::support::github::{APP_ID, AppKey, CLIENT_ID, CLIENT_SECRET, FakeGithub};
use crate::support::{Http, Reply, Server, ServerBuilder};

/// A server whose app is at that GitHub.
fn with_app(github: &FakeGithub, key: &AppKey) -> ServerBuilder {
    Server::builder()
        .env("GITHUB_APP_ID", APP_ID)
        .env("GITHUB_APP_PRIVATE_KEY", &key.older)
        .env("GITHUB_APP_CLIENT_ID", CLIENT_ID)
        .env("GITHUB_APP_CLIENT_SECRET", CLIENT_SECRET)
        .env("GITHUB_URL", &github.url())
        .env("GITHUB_API_URL", &github.url())
}

fn repos(names: &[&str]) -> Value {
    json!({ "default": names.first(), "allowed": names, "github_installation_id": 7 })
}

/// Makes an environment as somebody whom GitHub shows everything of `acme`.
fn make(http: &Http, name: &str, spec: &Value) -> Reply {
    make_in(http, ENVIRONMENTS, "ghu_owner", name, spec)
}

fn make_in(http: &Http, path: &str, user: &str, name: &str, spec: &Value) -> Reply {
    let body = json!({ "name": name, "spec": spec }).to_string();
    http.send("POST", path, &[("X-GitHub-Token", user)], Some(body.as_bytes()))
}

/// An environment of `acme`'s repositories.
struct Scene {
    github: FakeGithub,
    server: Server,
    http: Http,
    path: String,
}

impl Scene {
    fn new(names: &[&str]) -> Self {
        let github = FakeGithub::start();
        let server = with_app(&github, &github.key).start();
        Self::on(github, server, names)
    }

    fn on(github: FakeGithub, server: Server, names: &[&str]) -> Self {
        let http = server.http();
        let made = expect(&make(&http, "web", &json!({ "repos": repos(names) })), 201);
        Self { github, path: format!("{ENVIRONMENTS}/{}", text(&made, "id")), http, server }
    }

    fn at(&self, rest: &str) -> String {
        format!("{}{rest}", self.path)
    }

    /// Starts a process that keeps its token in a file, waits for it, and gives what it was told and the token.
    #[track_caller]
    fn token_of_process(&self, headers: &[(&str, &str)]) -> (Value, String) {
        let body = json!({ "argv": ["sh", "-c", "printf %s \"$GITHUB_TOKEN\" > token"] }).to_string();
        let process = expect(&self.http.send("POST", &self.at("/processes"), headers, Some(body.as_bytes())), 201);
        let wait = self.at(&format!("/processes/{}/wait", text(&process, "id")));
        assert_eq!(expect(&self.http.get(&wait), 200)["exit"]["code"], 0);
        let read = self.http.get(&self.at("/files?path=token"));
        assert_eq!(read.status, 200, "{}", String::from_utf8_lossy(&read.body));
        (process, String::from_utf8(read.body).unwrap())
    }

    fn credential(&self, name: &str, operation: &str, headers: &[(&str, &str)]) -> Reply {
        let body = json!({ "repo_full_name": name, "operation": operation }).to_string();
        self.http.send("POST", &self.at("/git/credentials"), headers, Some(body.as_bytes()))
    }

    #[track_caller]
    fn credential_token(&self, name: &str, operation: &str) -> String {
        text(&expect(&self.credential(name, operation, &[]), 200), "token")
    }

    fn minted(&self) -> usize {
        self.github.state().minted.len()
    }

    /// Nothing was asked for that must never be.
    #[track_caller]
    fn no_complaints(&self) {
        assert!(self.github.state().complaints.is_empty(), "{:?}", self.github.state().complaints);
    }

    /// Waits until GitHub has taken back so many.
    #[track_caller]
    fn until_revoked(&self, count: usize) {
        for _ in 0..600 {
            if self.github.state().revoked >= count {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{} of {count} tokens were taken back", self.github.state().revoked);
    }
}

#[track_caller]
fn acquire(http: &Http, environment: &str) -> Value {
    let reply = http.post(&format!("{ENVIRONMENTS}/acquire"), json!({ "environment_id": environment, "lease_ttl": "60s" }));
    expect(&reply, 200)["lease"].clone()
}

fn id_of(path: &str) -> String {
    path.rsplit('/').next().unwrap().to_owned()
}
