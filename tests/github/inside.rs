//! Repositories inside real places: checked out, pushed to after tokens have died, and never beyond what the definition allows.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Scene, acquire, id_of, make, repos, with_app};
use crate::api::world::{ENVIRONMENTS, expect, refused, text};
use crate::support::Server;
use crate::support::github::{FakeGithub, git};
use crate::workspaces::can_run;

impl Scene {
    /// What runs inside reaches the git server by a name, and nothing else.
    fn reachable(names: &[&str]) -> Self {
        let github = FakeGithub::start();
        let server = with_app(&github, &github.key).env("GITHUB_URL", &web(&github)).with(&["--egress-allow", "127.0.0.0/8"]).start();
        let http = server.http();
        let spec = json!({
            "sandbox": { "network_access": "allowlist", "allowed_hosts": [web(&github).trim_start_matches("http://")] },
            "env": { "NO_PROXY": "", "no_proxy": "" },
            "repos": repos(names),
        });
        let made = expect(&make(&http, "web", &spec), 201);
        Self { github, path: format!("{ENVIRONMENTS}/{}", text(&made, "id")), http, server }
    }

    /// Waits for a process; its exit code, and what it printed to either stream.
    #[track_caller]
    fn over(&self, process: &Value) -> (i64, String, String) {
        let at = self.at(&format!("/processes/{}", text(process, "id")));
        let ended = loop {
            let seen = expect(&self.http.get(&format!("{at}/wait?timeout=30s")), 200);
            if !seen["exit"].is_null() {
                break seen;
            }
        };
        let read = |stream: &str| String::from_utf8_lossy(&self.http.get(&format!("{at}/logs?stream={stream}")).body).into_owned();
        (ended["exit"]["code"].as_i64().unwrap_or(-1), read("stdout"), read("stderr"))
    }

    #[track_caller]
    fn check_out(&self, request: Value) -> (i64, String, String) {
        let process = expect(&self.http.post(&self.at("/checkouts"), request), 201);
        assert_eq!(process["purpose"], "checkout");
        self.over(&process)
    }

    #[track_caller]
    fn shell(&self, script: &str) -> (i64, String, String) {
        let process = expect(&self.http.post(&self.at("/processes"), json!({ "argv": ["sh", "-c", script] })), 201);
        self.over(&process)
    }
}

fn web(github: &FakeGithub) -> String {
    format!("http://localhost:{}", github.address.rsplit(':').next().unwrap())
}

fn head(bare: &Path) -> String {
    let output = Command::new("git").current_dir(bare).args(["rev-parse", "main"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// As a program inside would ask, with whatever it likes to show.
fn ask(server: &Server, line: &str) -> String {
    let mut stream = UnixStream::connect(server.path().join("inside/socket")).unwrap();
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn a_push_from_inside_works_after_the_first_token_has_died() {
    let scene = Scene::reachable(&["acme/web", "acme/lib"]);
    if !can_run(&scene.server) {
        return;
    }
    let bare = scene.github.make_repository("acme/web");
    scene.github.state().life = Duration::from_secs(2);
    let (code, commit, progress) = scene.check_out(json!({}));
    assert_eq!((code, commit.trim()), (0, head(&bare).as_str()), "{progress}");

    let script = "set -e; cd web; git config user.email >/dev/null; sleep 3; echo more > more; git add more; git commit -qm second
        git -c credential.helper= -c http.extraHeader=\"Authorization: Basic $(printf 'x-access-token:%s' \"$GITHUB_TOKEN\" | base64 -w0)\" \
            ls-remote -q origin >/dev/null 2>&1 && exit 9
        git push -q origin main; git rev-parse HEAD";
    let (code, pushed, errors) = scene.shell(script);
    assert_eq!((code, pushed.trim()), (0, head(&bare).as_str()), "{errors}");
    assert_ne!(pushed, commit);
    // And after a server that was killed has come back.
    let (code, again, errors) = scene.check_out(json!({}));
    assert_eq!((code, again), (0, pushed), "{errors}");
    scene.no_complaints();
}

#[test]
fn a_server_that_comes_back_answers_git_that_ran_all_the_while() {
    let mut scene = Scene::reachable(&["acme/web"]);
    if !can_run(&scene.server) {
        return;
    }
    let bare = scene.github.make_repository("acme/web");
    let wait = "until test -e /workspace/go; do sleep 0.1; done; git ls-remote -q $0 refs/heads/main";
    let argv = json!({ "argv": ["sh", "-c", wait, format!("{}/acme/web.git", web(&scene.github))] });
    let process = expect(&scene.http.post(&scene.at("/processes"), argv), 201);
    scene.server.kill();
    let again = with_app(&scene.github, &scene.github.key)
        .env("GITHUB_URL", &web(&scene.github))
        .with(&["--egress-allow", "127.0.0.0/8"])
        .on(scene.server.directory())
        .start();
    scene.http = again.http();
    scene.server = again;
    let go = scene.http.send("PUT", &scene.at("/files?path=go"), &[], Some(b""));
    assert!(go.status < 300, "{}", String::from_utf8_lossy(&go.body));
    let (code, seen, errors) = scene.over(&process);
    assert_eq!(code, 0, "{errors}");
    assert!(seen.starts_with(&head(&bare)), "{seen}");
}

#[test]
fn git_inside_gets_nothing_for_what_the_definition_does_not_allow() {
    let scene = Scene::reachable(&["acme/web"]);
    if !can_run(&scene.server) {
        return;
    }
    scene.github.make_repository("acme/web");
    scene.github.make_repository("acme/lib");
    let (code, _, errors) = scene.shell(&format!("git clone -q {}/acme/lib.git", web(&scene.github)));
    assert!(code != 0 && errors.contains("does not allow `acme/lib`"), "{errors}");
    let (code, _, errors) =
        scene.shell(&format!("git clone -q {0}/acme/web.git && cd web && git push -q {0}/acme/lib.git HEAD:main", web(&scene.github)));
    assert!(code != 0 && errors.contains("does not allow `acme/lib`"), "{errors}");
    refused(&scene.http.post(&scene.at("/checkouts"), json!({ "repository": "acme/lib" })), 403, "repository_not_allowed");
    // Another host is none of ours, whatever it is called.
    let asked = "printf 'protocol=http\\nhost=evil.example\\npath=acme/web.git\\n\\n' | /run/stead/git/git-credential-stead get";
    let (code, said, errors) = scene.shell(asked);
    assert_eq!((code, said.as_str()), (0, "quit=1\n"), "{errors}");
    assert!(scene.github.state().minted.iter().all(|(_, body)| !body.to_string().contains("lib")));
}

#[test]
fn what_git_is_given_is_in_no_log() {
    let scene = Scene::reachable(&["acme/web"]);
    if !can_run(&scene.server) {
        return;
    }
    let host = web(&scene.github);
    let host = host.trim_start_matches("http://");
    let (code, said, errors) =
        scene.shell(&format!("printf 'protocol=http\\nhost={host}\\npath=acme/web.git\\n\\n' | git credential fill; env"));
    assert_eq!(code, 0, "{errors}");
    assert!(said.contains("password=***GITHUB_TOKEN***") && said.contains("STEAD_GIT_PASS=***STEAD_GIT_PASS***"), "{said}");
    for token in scene.github.all_tokens() {
        assert!(!said.contains(&token) && !errors.contains(&token), "{said}{errors}");
    }
}

#[test]
fn a_pass_is_worth_nothing_to_anybody_else_or_later() {
    let scene = Scene::reachable(&["acme/web"]);
    if !can_run(&scene.server) {
        return;
    }
    let lease = acquire(&scene.http, &id_of(&scene.path));
    let header = text(&lease, "token");
    let body = json!({ "argv": ["sh", "-c", "printf %s \"$STEAD_GIT_PASS\" > pass"] }).to_string();
    let process = expect(&scene.http.send("POST", &scene.at("/processes"), &[("Stead-Lease", &header)], Some(body.as_bytes())), 201);
    assert_eq!(scene.over(&process).0, 0);
    let pass = String::from_utf8(scene.http.get(&scene.at("/files?path=pass")).body).unwrap();
    let host = web(&scene.github);
    let host = host.trim_start_matches("http://");
    let question = |pass: &str| json!({ "pass": pass, "protocol": "http", "host": host, "path": "acme/web.git" }).to_string();
    assert!(ask(&scene.server, &question(&pass)).contains("ghs_"), "its holder has it");

    for bad in ["", "x", &pass[1..], &format!("B{}", &pass[1..]), &format!("{pass}A")] {
        let answer = ask(&scene.server, &question(bad));
        assert!(!answer.contains("ghs_") && answer.contains("no pass of this server's"), "{bad}: {answer}");
    }
    for nonsense in ["", "{}", "[]", "GET / HTTP/1.1", &"x".repeat(100_000)] {
        assert!(!ask_or_nothing(&scene.server, nonsense).contains("ghs_"));
    }
    let minted = scene.minted();
    expect(&scene.http.post(&format!("{ENVIRONMENTS}/leases/{}/release", text(&lease, "id")), json!({})), 200);
    let answer = ask(&scene.server, &question(&pass));
    assert!(!answer.contains("ghs_") && answer.contains("changed hands"), "{answer}");
    // Somebody else's lease does not bring it back.
    let _next = acquire(&scene.http, &id_of(&scene.path));
    let answer = ask(&scene.server, &question(&pass));
    assert!(!answer.contains("ghs_"), "{answer} after {minted} tokens");
}

fn ask_or_nothing(server: &Server, line: &str) -> String {
    let mut stream = UnixStream::connect(server.path().join("inside/socket")).unwrap();
    let _ = writeln!(stream, "{line}");
    let mut answer = String::new();
    let _ = BufReader::new(stream).read_line(&mut answer);
    answer
}

#[test]
fn a_checkout_is_exactly_what_was_asked_for_or_a_failure() {
    let scene = Scene::reachable(&["acme/web", "acme/lib"]);
    if !can_run(&scene.server) {
        return;
    }
    let bare = scene.github.make_repository("acme/web");
    let first = head(&bare);
    assert_eq!(scene.check_out(json!({})).0, 0);
    let (code, _, errors) = scene.shell("cd web && git checkout -qb side && echo x > x && git add x && git commit -qm side && git push -q origin side && git tag v1 && git push -q origin v1");
    assert_eq!(code, 0, "{errors}");
    let (code, side, errors) = scene.check_out(json!({ "ref": "side" }));
    assert_eq!(code, 0, "{errors}");
    assert_ne!(side.trim(), first);
    assert_eq!(scene.check_out(json!({ "ref": "refs/tags/v1", "directory": "tagged" })).1, side);
    // By the commit alone, also when its branch is gone.
    git(&bare, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    git(&bare, &["branch", "-D", "side"]);
    let (code, at, errors) = scene.check_out(json!({ "commit": side.trim(), "directory": "by-commit", "partial": true }));
    assert_eq!((code, at), (0, side), "{errors}");
    assert_eq!(scene.shell("cd by-commit && cat x && git status --porcelain").1, "x\n");

    // What is in the way is never lost without a word, and nothing that failed looks done.
    let fails = |request: Value, why: &str| {
        let (code, printed, errors) = scene.check_out(request);
        assert!(code != 0 && printed.is_empty() && errors.contains(why), "{why}: {code} {printed} {errors}");
    };
    assert_eq!(scene.shell("echo changed > web/README").0, 0);
    fails(json!({}), "has changes");
    let (code, at, errors) = scene.check_out(json!({ "on_changes": "discard" }));
    assert_eq!((code, at.trim()), (0, first.as_str()), "{errors}");
    assert_eq!(scene.shell("cat web/README").1, "first\n");
    assert_eq!(scene.shell("cd web && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m local").0, 0);
    fails(json!({}), "never pushed");
    fails(json!({ "ref": "nowhere", "directory": "other" }), "no branch nowhere");
    fails(json!({ "commit": "0".repeat(40), "directory": "zero" }), "no commit");
    fails(json!({ "repository": "acme/lib" }), "could not be fetched");
    assert_eq!(scene.shell("mkdir full && echo mine > full/file").0, 0);
    fails(json!({ "directory": "full" }), "not empty");
    assert_eq!(scene.shell("cat full/file").1, "mine\n");
    for bad in [
        json!({ "ref": "--upload-pack=x" }),
        json!({ "directory": "../out" }),
        json!({ "commit": "main" }),
        json!({ "on_changes": "lose" }),
    ] {
        assert_eq!(scene.http.post(&scene.at("/checkouts"), bad.clone()).status, 400, "{bad}");
    }
}
