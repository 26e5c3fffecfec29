//! Credentials for git, one repository and one operation at a time.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::{Scene, acquire, id_of, with_app};
use crate::api::world::{ENVIRONMENTS, expect, refused, text};
use crate::authorization::cast::admit;
use crate::support::github::{FakeGithub, git, try_git};

#[test]
fn a_credential_is_for_one_repository_and_what_is_done_there() {
    let scene = Scene::new(&["acme/web", "acme/lib"]);
    let reply = scene.credential("Acme/Web", "clone", &[]);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let credential = expect(&reply, 200);
    assert_eq!((&*text(&credential, "username"), &*text(&credential, "repo_full_name")), ("x-access-token", "acme/web"));
    assert_eq!(text(&credential, "host"), scene.github.address);
    let reads = json!({ "repositories": ["web"], "permissions": { "contents": "read", "metadata": "read" } });
    assert_eq!(scene.github.state().minted[0].1, reads);
    assert_eq!(scene.credential_token("acme/web.git", "fetch"), text(&credential, "token"), "to fetch is to read");
    let pushes = scene.credential_token("acme/web", "push");
    assert_ne!(pushes, text(&credential, "token"));
    let writes = json!({ "repositories": ["web"], "permissions": { "contents": "write", "metadata": "read" } });
    assert_eq!(scene.github.state().minted[1].1, writes);

    scene.github.make_repository("acme/web");
    let work = TempDir::new().unwrap();
    git(work.path(), &["clone", "-q", &scene.github.address_with(&text(&credential, "token"), "acme/web"), "web"]);
    let web = work.path().join("web");
    git(&web, &["-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "second"]);
    assert!(!try_git(&web, &["push", "-q", "origin", "main"]).status.success(), "what reads does not write");
    git(&web, &["push", "-q", &scene.github.address_with(&pushes, "acme/web"), "main"]);
    scene.no_complaints();

    // What was given out is told, and the token is not.
    let audit = expect(&scene.http.get("/v1/projects/default/audit?action=environment.git.credential"), 200);
    assert_eq!(audit["items"].as_array().unwrap().len(), 3, "{audit}");
    assert_eq!(audit["items"][0]["details"], json!({ "repo_full_name": "acme/web", "operation": "push" }));
    assert!(!audit.to_string().contains("ghs_"), "{audit}");
}

#[test]
fn a_push_works_after_the_first_token_has_died() {
    let scene = Scene::new(&["acme/web"]);
    scene.github.make_repository("acme/web");
    scene.github.state().life = Duration::from_secs(2);
    let first = scene.credential_token("acme/web", "push");
    let work = TempDir::new().unwrap();
    git(work.path(), &["clone", "-q", &scene.github.address_with(&first, "acme/web"), "web"]);
    let web = work.path().join("web");
    git(&web, &["-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "second"]);
    std::thread::sleep(Duration::from_secs(3));
    assert!(!try_git(&web, &["push", "-q", &scene.github.address_with(&first, "acme/web"), "main"]).status.success(), "it has died");
    let next = scene.credential_token("acme/web", "push");
    assert_ne!(next, first);
    git(&web, &["push", "-q", &scene.github.address_with(&next, "acme/web"), "main"]);
}

#[test]
fn outside_of_the_policy_nothing_is_asked_for() {
    let scene = Scene::new(&["acme/web"]);
    for name in ["acme/lib", "other/web", "acme/web2"] {
        let details = refused(&scene.credential(name, "clone", &[]), 403, "repository_not_allowed");
        assert_eq!(details["repo_full_name"], name);
    }
    for name in ["web", "acme/", "/web", "acme/../web", "acme/web/x", "", "acme/we b"] {
        refused(&scene.credential(name, "clone", &[]), 400, "invalid_field");
    }
    refused(&scene.credential("acme/web", "merge", &[]), 400, "invalid_field");
    assert_eq!(scene.minted(), 0);
    // What is taken out of the definition is out at once.
    expect(&scene.http.patch(&scene.path, json!({ "spec": { "repos": { "default": null, "allowed": [] } } })), 200);
    refused(&scene.credential("acme/web", "clone", &[]), 403, "repository_not_allowed");
    expect(&scene.http.patch(&scene.path, json!({ "spec": { "repos": null } })), 200);
    refused(&scene.credential("acme/web", "clone", &[]), 403, "repository_not_allowed");
}

#[test]
fn only_whoever_holds_the_environment_gets_one() {
    let scene = Scene::new(&["acme/web"]);
    let [viewer, member] = ["viewer", "member"].map(|role| scene.server.http_as(Some(&admit(&scene.http, "default", role, role).key)));
    let ask = json!({ "repo_full_name": "acme/web" });
    let path = scene.at("/git/credentials");
    assert_eq!(viewer.post(&path, ask.clone()).status, 403);
    let lease = acquire(&scene.http, &id_of(&scene.path));
    let held = member.post(&path, ask.clone());
    assert_eq!((held.status, &*held.code()), (409, "lease_held"), "{}", String::from_utf8_lossy(&held.body));
    let token = text(&lease, "token");
    // The token of the lease lets in whoever has it, also as a credential.
    let with = |token: &str| member.send("POST", &path, &[("Stead-Lease", token)], Some(ask.to_string().as_bytes()));
    expect(&with(&token), 200);
    expect(&scene.server.http_as(Some(&token)).post(&path, ask.clone()), 200);
    expect(&scene.http.post(&format!("{ENVIRONMENTS}/leases/{}/release", text(&lease, "id")), json!({})), 200);
    let stale = with(&token);
    assert_eq!((stale.status, &*stale.code()), (412, "fence_stale"), "{}", String::from_utf8_lossy(&stale.body));
    assert_eq!(scene.server.http_as(Some(&token)).post(&path, ask).status / 100, 4);
    assert_eq!(scene.minted(), 1);
}

#[test]
fn an_operator_lowers_what_tokens_may_do() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).with(&["--github-permissions", "contents=read"]).start();
    let scene = Scene::on(github, server, &["acme/web"]);
    scene.token_of_process(&[]);
    scene.credential_token("acme/web", "push");
    let least = json!({ "repositories": ["web"], "permissions": { "contents": "read", "metadata": "read" } });
    assert!(scene.github.state().minted.iter().all(|(_, body)| *body == least), "{:?}", scene.github.state().minted);
}

#[test]
fn without_an_installation_there_is_no_credential() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let http = server.http();
    let made = expect(&http.post(ENVIRONMENTS, json!({ "name": "web", "spec": { "repos": { "allowed": ["acme/web"] } } })), 201);
    let path = format!("{ENVIRONMENTS}/{}/git/credentials", text(&made, "id"));
    refused(&http.post(&path, json!({ "repo_full_name": "acme/web" })), 409, "git_unavailable");
    let plain = crate::support::Server::start();
    let http = plain.http();
    let made = expect(&http.post(ENVIRONMENTS, json!({ "name": "web", "spec": { "repos": super::repos(&["acme/web"]) } })), 201);
    let path = format!("{ENVIRONMENTS}/{}/git/credentials", text(&made, "id"));
    refused(&http.post(&path, json!({ "repo_full_name": "acme/web" })), 409, "git_unavailable");
}
