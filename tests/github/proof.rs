//! Whoever names an installation shows that GitHub shows it to them.

use serde_json::{Value, json};

use super::{make_in, repos, with_app};
use crate::api::world::{ENVIRONMENTS, expect, refused, text};
use crate::support::Server;
use crate::support::github::FakeGithub;

fn patch(http: &crate::support::Http, path: &str, user: Option<&str>, spec: Value) -> crate::support::Reply {
    let body = json!({ "spec": spec }).to_string();
    let headers: Vec<(&str, &str)> = user.map(|user| ("X-GitHub-Token", user)).into_iter().collect();
    http.send("PATCH", path, &headers, Some(body.as_bytes()))
}

#[test]
fn an_installation_is_set_by_who_sees_it_and_what_is_named_of_it() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let http = server.http();
    let make = |user: &str, name: &str, spec: Value| make_in(&http, ENVIRONMENTS, user, name, &json!({ "repos": spec }));
    // An API key of the server's, also the operator's, shows nothing.
    refused(&http.post(ENVIRONMENTS, json!({ "name": "a", "spec": { "repos": repos(&["acme/web"]) } })), 403, "github_proof_required");
    refused(&make("ghu_bob", "a", repos(&["acme/web"])), 403, "github_proof_required");
    refused(&make("ghu_nobody", "a", repos(&["acme/web"])), 403, "github_identity_required");
    // Alice sees the installation; of it she may push to `web`, read `lib`, and sees nothing else.
    assert_eq!(
        refused(&make("ghu_alice", "a", repos(&["acme/web", "acme/lib"])), 403, "github_proof_required")["repo_full_name"],
        "acme/lib"
    );
    refused(&make("ghu_alice", "a", repos(&["acme/payroll"])), 403, "github_proof_required");
    // Bare names are sent: an owner that is not the installation's would open somebody else's repository.
    assert_eq!(refused(&make("ghu_owner", "a", repos(&["other/web"])), 400, "invalid_field")["field"], "spec.repos.allowed[0]");
    assert_eq!(refused(&make("ghu_owner", "a", repos(&["acme/web", "other/web"])), 400, "invalid_field")["field"], "spec.repos.allowed[1]");
    assert_eq!(refused(&make("ghu_owner", "a", repos(&["acme/web", "Acme/WEB"])), 400, "invalid_field")["field"], "spec.repos.allowed[1]");
    assert_eq!(make("bad token", "a", repos(&["acme/web"])).status, 400);
    assert!(expect(&http.get(&format!("{ENVIRONMENTS}?name=a")), 200)["items"].as_array().unwrap().is_empty(), "nothing was made");

    let path = format!("{ENVIRONMENTS}/{}", text(&expect(&make("ghu_alice", "a", repos(&["acme/web"])), 201), "id"));
    // What is as it was needs nothing, nor does less of it; more does, and what was taken out is new again.
    expect(&patch(&http, &path, None, json!({ "env": { "A": "1" } })), 200);
    expect(&patch(&http, &path, None, json!({ "repos": { "allowed": ["ACME/web"], "default": null } })), 200);
    refused(&patch(&http, &path, None, json!({ "repos": { "allowed": ["acme/web", "acme/lib"] } })), 403, "github_proof_required");
    expect(&patch(&http, &path, Some("ghu_owner"), json!({ "repos": { "allowed": ["acme/web", "acme/lib"] } })), 200);
    expect(&patch(&http, &path, None, json!({ "repos": { "allowed": ["acme/web"] } })), 200);
    refused(&patch(&http, &path, None, json!({ "repos": { "allowed": ["acme/lib"] } })), 403, "github_proof_required");
    refused(&patch(&http, &path, None, json!({ "repos": { "github_installation_id": 8 } })), 403, "github_proof_required");
    // An earlier version that named more is no way around it.
    let versions = expect(&http.get(&format!("{path}/versions")), 200);
    let wide = versions["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["spec"]["repos"]["allowed"].as_array().is_some_and(|all| all.len() == 2));
    let back = format!("{path}/versions/{}/rollback", wide.unwrap()["version"]);
    refused(&http.post(&back, json!({})), 403, "github_proof_required");
    // A fork in the same project has what the first one has.
    let forks = http.post(&format!("{path}/fork"), json!({ "name": "b" }));
    if forks.status == 201 {
        let id = text(&forks.json()["items"][0], "id");
        expect(&http.post(&format!("{ENVIRONMENTS}/{id}/git/credentials"), json!({ "repo_full_name": "acme/web" })), 200);
    }
}

#[test]
fn who_runs_the_server_over_its_socket_shows_nothing_and_is_held_to_the_account() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let run = |arguments: &[&str]| server.command(arguments).output().unwrap();
    let made = run(&["env", "create", "web", "--repo", "acme/web", "--github-installation", "7", "--json"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let foreign = run(&["env", "create", "other", "--repo", "other/web", "--github-installation", "7"]);
    assert_eq!(foreign.status.code(), Some(2), "{}", String::from_utf8_lossy(&foreign.stderr));
    let unknown = run(&["env", "create", "other", "--repo", "acme/web", "--github-installation", "12345"]);
    assert_eq!(unknown.status.code(), Some(3), "{}", String::from_utf8_lossy(&unknown.stderr));
}

#[test]
fn the_command_line_sends_a_token_where_it_is_asked_to() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let key = server.path().join("owner.key");
    let run = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = crate::support::stead();
        command.args(["--url", &server.address, "--key-file", key.to_str().unwrap()]).args(arguments).envs(variable);
        command.output().unwrap()
    };
    let create = ["env", "create", "web", "--repo", "acme/web", "--github-installation", "7"];
    assert_eq!(run(&create, None).status.code(), Some(5));
    assert_eq!(run(&create, Some(("GITHUB_TOKEN", "ghu_bob"))).status.code(), Some(5));
    let made = run(&create, Some(("GH_TOKEN", "ghu_owner")));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // A field that is set by its path has no token sent by itself.
    let set = ["env", "update", "web", "--set", "repos.allowed=[\"acme/web\",\"acme/lib\"]"];
    assert_eq!(run(&set, Some(("GH_TOKEN", "ghu_owner"))).status.code(), Some(5));
    let asked = [set.as_slice(), &["--github-token", "env"]].concat();
    let done = run(&asked, Some(("GH_TOKEN", "ghu_owner")));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn without_an_app_the_lists_are_not_there_and_with_one_they_are_for_users_of_github() {
    let plain = Server::start();
    for path in ["/api/github/installations", "/api/github/installations/7/repos", "/api/auth/github/login"] {
        let reply = plain.http().send("GET", path, &[("X-GitHub-Token", "not a token")], None);
        let error = if path.contains("auth") { plain.http().get(path) } else { reply }.json()["error"].clone();
        assert_eq!(error["code"], "github_not_configured", "{path}: {error}");
        assert!(error["suggestion"].is_string() && error["recoverable"] == false && error["context"]["request_id"].is_string(), "{error}");
        assert!(error["details"].is_null());
    }
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let list = "/api/github/installations";
    for http in [server.http(), server.http_as(None)] {
        let reply = http.get(list);
        assert_eq!((reply.status, &*reply.code()), (403, "github_identity_required"));
    }
    let as_user = |user: &str, path: &str| server.http_as(None).send("GET", path, &[("X-GitHub-Token", user)], None);
    let found = expect(&as_user("ghu_alice", list), 200);
    assert_eq!(
        found,
        json!({ "total_count": 1, "installations": [{ "id": 7, "account": { "login": "acme", "type": "Organization" }, "repository_selection": "selected" }] })
    );
    let repositories = expect(&as_user("ghu_alice", "/api/github/installations/7/repos"), 200);
    assert_eq!(repositories["repositories"][0]["full_name"], "acme/web");
    assert_eq!(as_user("ghu_alice", "/api/github/installations/8/repos").status, 404);
    assert_eq!(as_user("ghu_alice", "/api/github/installations/x/repos").status, 400);
    assert_eq!(as_user("ghu_wrong", list).status, 403);
    let twice = server.http_as(None).send("GET", list, &[("X-GitHub-Token", "ghu_alice"), ("X-GitHub-Token", "ghu_bob")], None);
    assert_eq!(twice.status, 400);
    assert_eq!(expect(&server.http().get("/v1/system"), 200)["github"], json!({ "app": "4711", "host": github.address, "signs_in": true }));
}
