//! What a process finds in `GITHUB_TOKEN`, and for how long.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::{Scene, acquire, id_of, make, make_in, repos, with_app};
use crate::api::world::{ENVIRONMENTS, expect, text};
use crate::authorization::cast::make_project;
use crate::support::Server;
use crate::support::github::{AppKey, FakeGithub, git, try_git};

#[test]
fn a_process_pushes_to_what_is_allowed_with_the_token_that_it_finds() {
    let scene = Scene::new(&["acme/web"]);
    scene.github.make_repository("acme/web");
    scene.github.make_repository("acme/lib");
    let (process, token) = scene.token_of_process(&[]);
    assert!(process["warnings"].is_null(), "{process}");
    assert_eq!(
        scene.github.state().minted[0].1,
        json!({ "repositories": ["web"], "permissions": { "contents": "write", "metadata": "read", "pull_requests": "write" } })
    );

    let work = TempDir::new().unwrap();
    git(work.path(), &["clone", "-q", &scene.github.address_with(&token, "acme/web"), "web"]);
    let web = work.path().join("web");
    std::fs::write(web.join("more"), "second\n").unwrap();
    git(&web, &["add", "more"]);
    git(&web, &["-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-qm", "second"]);
    git(&web, &["push", "-q", "origin", "main"]);
    let refused = try_git(work.path(), &["clone", "-q", &scene.github.address_with(&token, "acme/lib"), "lib"]);
    assert!(!refused.status.success(), "what the definition does not name stays shut");
    assert_eq!(expect(&scene.http.get(&scene.path), 200)["contains_secrets"], true);
    scene.no_complaints();
}

#[test]
fn one_token_serves_many_processes_and_is_made_anew_in_time() {
    let scene = Scene::new(&["acme/web"]);
    // Two seconds longer than what is too late to be given out.
    scene.github.state().life = Duration::from_secs(303);
    let lease = acquire(&scene.http, &id_of(&scene.path));
    let header = text(&lease, "token");
    let first = scene.token_of_process(&[("Stead-Lease", &header)]).1;
    assert_eq!(scene.token_of_process(&[("Stead-Lease", &header)]).1, first);
    assert_eq!(scene.minted(), 1);
    std::thread::sleep(Duration::from_secs(4));
    assert_ne!(scene.token_of_process(&[("Stead-Lease", &header)]).1, first);
    assert_eq!(scene.minted(), 2);
    scene.no_complaints();
}

#[test]
fn a_token_is_taken_back_when_its_lease_is_released_and_when_its_environment_goes() {
    let scene = Scene::new(&["acme/web"]);
    let lease = acquire(&scene.http, &id_of(&scene.path));
    let header = text(&lease, "token");
    let token = scene.token_of_process(&[("Stead-Lease", &header)]).1;
    assert!(!scene.github.state().tokens[&token].revoked);
    expect(&scene.http.post(&format!("{ENVIRONMENTS}/leases/{}/release", text(&lease, "id")), json!({})), 200);
    scene.until_revoked(1);
    assert!(scene.github.state().tokens[&token].revoked);

    let next = acquire(&scene.http, &id_of(&scene.path));
    let another = scene.token_of_process(&[("Stead-Lease", &text(&next, "token"))]).1;
    assert_ne!(another, token);
    expect(&scene.http.delete(&scene.path), 200);
    scene.until_revoked(2);
    assert!(scene.github.state().tokens[&another].revoked);
}

#[test]
fn two_projects_never_share_a_token() {
    let scene = Scene::new(&["acme/web"]);
    make_project(&scene.http, "second");
    let made = expect(
        &make_in(&scene.http, "/v1/projects/second/environments", "ghu_owner", "web", &json!({ "repos": repos(&["acme/web"]) })),
        201,
    );
    let path = format!("/v1/projects/second/environments/{}/git/credentials", text(&made, "id"));
    let ask = json!({ "repo_full_name": "acme/web" });
    let first = text(&expect(&scene.http.post(&scene.at("/git/credentials"), ask.clone()), 200), "token");
    let second = text(&expect(&scene.http.post(&path, ask), 200), "token");
    assert_ne!(first, second);
    assert_eq!(scene.minted(), 2);
}

#[test]
fn without_a_repository_no_token_is_asked_for() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let http = server.http();
    for (name, spec) in [
        ("none", json!({ "repos": { "github_installation_id": 7 } })),
        ("empty", json!({ "repos": { "allowed": [], "github_installation_id": 7 } })),
        ("uninstalled", json!({ "repos": { "allowed": ["acme/web"] } })),
    ] {
        let made = expect(&make(&http, name, &spec), 201);
        let path = format!("{ENVIRONMENTS}/{}/exec", text(&made, "id"));
        let ran = expect(&http.post(&path, json!({ "command": ["sh", "-c", "echo \"[$GITHUB_TOKEN]\""] })), 200);
        assert_eq!(text(&ran, "stdout"), "[]\n", "{name}");
    }
    assert!(github.state().minted.is_empty() && github.state().complaints.is_empty());
}

#[test]
fn without_an_app_a_process_begins_without_a_token_and_says_so() {
    let server = Server::start();
    let http = server.http();
    let made = expect(&http.post(ENVIRONMENTS, json!({ "name": "web", "spec": { "repos": repos(&["acme/web"]) } })), 201);
    let path = format!("{ENVIRONMENTS}/{}", text(&made, "id"));
    let process = expect(&http.post(&format!("{path}/processes"), json!({ "argv": ["true"] })), 201);
    assert!(process["warnings"][0].as_str().unwrap().contains("GITHUB_APP_ID"), "{process}");

    // With an app, what nobody had to show then is granted to nobody now.
    let github = FakeGithub::start();
    let directory = server.directory();
    drop(server);
    let server = with_app(&github, &github.key).on(directory).start();
    let http = server.http();
    let process = expect(&http.post(&format!("{path}/processes"), json!({ "argv": ["true"] })), 201);
    assert!(process["warnings"][0].as_str().unwrap().contains("nobody has shown"), "{process}");
    let refused = http.post(&format!("{path}/git/credentials"), json!({ "repo_full_name": "acme/web" }));
    assert_eq!((refused.status, &*refused.code()), (403, "github_proof_required"));
    assert!(github.state().minted.is_empty());
    // The same definition once more, by somebody who shows it.
    let patch = json!({ "spec": { "repos": repos(&["acme/web"]) } }).to_string();
    expect(&http.send("PATCH", &path, &[("X-GitHub-Token", "ghu_owner")], Some(patch.as_bytes())), 200);
    let process = expect(&http.post(&format!("{path}/processes"), json!({ "argv": ["true"] })), 201);
    assert!(process["warnings"].is_null(), "{process}");
    assert_eq!(github.state().minted.len(), 1);
}

#[test]
fn the_token_stands_before_a_secret_of_its_name_and_behind_what_the_caller_says() {
    let scene = Scene::new(&["acme/web"]);
    let secret = json!({ "value": "a-secret-of-ones-own" }).to_string();
    expect(&scene.http.send("PUT", "/v1/projects/default/secrets/GITHUB_TOKEN", &[], Some(secret.as_bytes())), 201);
    expect(&scene.http.patch(&scene.path, json!({ "spec": { "secret_bindings": [{ "name": "GITHUB_TOKEN" }] } })), 200);
    let (process, token) = scene.token_of_process(&[]);
    assert!(token.starts_with("ghs_"), "{token}");
    assert!(process["warnings"][0].as_str().unwrap().contains("the secret GITHUB_TOKEN is bound"), "{process}");
    let body = json!({ "command": ["sh", "-c", "test \"$GITHUB_TOKEN\" = mine"], "env": ["GITHUB_TOKEN=mine"] });
    assert_eq!(expect(&scene.http.post(&scene.at("/exec"), body), 200)["exit_code"], 0);
}

#[test]
fn another_key_of_the_app_is_taken_with_the_next_start_in_either_form() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let scene = Scene::on(github, server, &["acme/web"]);
    scene.credential_token("acme/web", "fetch");
    let key = AppKey::make();
    scene.github.trust(&key);
    let Scene { github, server, path, .. } = scene;
    let directory = server.directory();
    let file = directory.path().join("app.pem");
    std::fs::write(&file, &key.newer).unwrap();
    drop(server);
    let server = with_app(&github, &key).env("GITHUB_APP_PRIVATE_KEY", file.to_str().unwrap()).on(directory).start();
    let http = server.http();
    expect(&http.post(&format!("{path}/git/credentials"), json!({ "repo_full_name": "acme/web" })), 200);
    assert_eq!(github.state().unbelieved, 0);
}

#[test]
fn a_handed_on_lease_keeps_what_runs_its_token() {
    let scene = Scene::new(&["acme/web"]);
    let member = crate::authorization::cast::admit(&scene.http, "default", "ann", "member");
    let lease = acquire(&scene.http, &id_of(&scene.path));
    let token = scene.token_of_process(&[("Stead-Lease", &text(&lease, "token"))]).1;
    let path = format!("{ENVIRONMENTS}/leases/{}/transfer", text(&lease, "id"));
    let next = expect(&scene.http.post(&path, json!({ "to": member.principal })), 200)["lease"].clone();
    assert_eq!(scene.token_of_process(&[("Stead-Lease", &text(&next, "token"))]).1, token);
    assert_eq!(scene.github.state().revoked, 0);
    let release = format!("{ENVIRONMENTS}/leases/{}/release", text(&next, "id"));
    expect(&scene.server.http_as(Some(&member.key)).post(&release, json!({})), 200);
    scene.until_revoked(1);
}
