use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};

use super::{Home, can_run};
use crate::api::world::{expect, refused};
use crate::support::Server;

fn spec() -> Value {
    json!({"sandbox": {"network_access": "disabled", "workspace_access": "cow"}})
}

fn listed(home: &Home<'_>, query: &str) -> Vec<(String, String)> {
    let page = expect(&home.http.get(&home.path(&format!("/changes{query}"))), 200);
    let told = |item: &Value| (item["path"].as_str().unwrap().to_owned(), item["kind"].as_str().unwrap().to_owned());
    page["items"].as_array().unwrap().iter().map(told).collect()
}

fn told(changes: &[(&str, &str)]) -> Vec<(String, String)> {
    changes.iter().map(|(path, kind)| ((*path).to_owned(), (*kind).to_owned())).collect()
}

fn check(server: &Server) {
    if !can_run(server) {
        return;
    }
    let home = Home::new(server, "cow", spec());
    let workspace = home.directory("workspace");
    fs::create_dir_all(workspace.join("replaced")).unwrap();
    for (name, text) in [("changed", "before"), ("removed", "away"), ("replaced/old", "old")] {
        fs::write(workspace.join(name), text).unwrap();
    }
    let owner = fs::metadata(&workspace).unwrap();
    for name in ["changed", "removed", "replaced", "replaced/old"] {
        std::os::unix::fs::lchown(workspace.join(name), Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    home.works(
        "echo after > changed; rm removed; rm -r replaced; mkdir replaced; echo new > replaced/new; \
         mkdir -p fresh/deep; echo x > fresh/deep/file; ln -s /etc/passwd link; mkfifo pipe; ln fresh/deep/file hard; chmod 600 fresh/deep/file",
    );
    assert_eq!(fs::read_to_string(workspace.join("changed")).unwrap(), "before", "nothing is written below");
    let all = told(&[
        ("changed", "modified"),
        ("fresh", "added"),
        ("fresh/deep", "added"),
        ("fresh/deep/file", "added"),
        ("hard", "added"),
        ("link", "added"),
        ("pipe", "added"),
        ("removed", "deleted"),
        ("replaced/new", "added"),
        ("replaced/old", "deleted"),
    ]);
    assert_eq!(listed(&home, ""), all);
    assert_eq!(listed(&home, "?path=fresh/deep"), told(&[("fresh/deep", "added"), ("fresh/deep/file", "added")]));
    let first = expect(&home.http.get(&home.path("/changes?limit=4")), 200);
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(listed(&home, &format!("?limit=200&cursor={cursor}")), all[4..]);

    // What runs is in the way; an environment that is only awake is put to sleep.
    let process = expect(&home.http.post(&home.path("/processes"), json!({"argv": ["sleep", "600"]})), 201);
    refused(&home.http.post(&home.path("/changes/keep"), json!({})), 409, "conflict");
    refused(&home.http.post(&home.path("/changes/drop"), json!({})), 409, "conflict");
    expect(&home.http.delete(&home.path(&format!("/processes/{}", process["id"].as_str().unwrap()))), 200);

    refused(&home.http.post(&home.path("/changes/keep"), json!({"paths": ["../out"]})), 400, "invalid_field");
    refused(&home.http.post(&home.path("/changes/keep"), json!({"paths": ["replaced/new"]})), 409, "conflict");
    let kept = expect(&home.http.post(&home.path("/changes/keep"), json!({"paths": ["fresh/deep/file", "changed"]})), 200);
    assert_eq!(kept, json!({"count": 2}));
    assert_eq!(fs::read_to_string(workspace.join("changed")).unwrap(), "after\n");
    let file = fs::metadata(workspace.join("fresh/deep/file")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (owner.uid(), owner.gid(), 0o600));
    assert_eq!(home.works("cat changed fresh/deep/file hard"), "after\nx\nx\n", "inside nothing is different");

    let dropped = expect(&home.http.post(&home.path("/changes/drop"), json!({"paths": ["removed", "link"]})), 200);
    assert_eq!(dropped, json!({"count": 2}));
    assert_eq!(home.works("cat removed; ls link 2>/dev/null || true"), "away");
    let kept = expect(&home.http.post(&home.path("/changes/keep"), json!({})), 200);
    assert_eq!(kept, json!({"count": 4}));
    assert_eq!(listed(&home, ""), []);
    assert!(!workspace.join("replaced/old").exists() && workspace.join("replaced/new").exists());
    assert_eq!(home.works("ls; cat replaced/new; echo more > changed"), "changed\nfresh\nhard\npipe\nremoved\nreplaced\nnew\n");
    assert_eq!(listed(&home, ""), told(&[("changed", "modified")]));
    assert_eq!(expect(&home.http.post(&home.path("/changes/drop"), json!({})), 200), json!({"count": 1}));
    assert_eq!(home.works("cat changed"), "after\n");
}

#[test]
fn what_is_written_beside_a_workspace_is_listed_kept_and_dropped() {
    check(&Server::start());
}

#[test]
fn the_same_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = std::sync::Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    std::os::unix::fs::chown(directory.path(), Some(5001), Some(5001)).unwrap();
    let wrapper = ["setpriv", "--reuid=5001", "--regid=5001", "--clear-groups", "--"];
    check(&Server::builder().on(directory).through(&wrapper).start());
}

#[test]
fn the_commands_show_and_settle_them() {
    let server = Server::start();
    if !can_run(&server) {
        return;
    }
    let home = Home::new(&server, "cow", spec());
    home.works("echo text > file; mkdir directory");
    let run = |arguments: &[&str]| {
        let output = server.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (table, _) = run(&["env", "changes", "cow"]);
    assert!(table.contains("added") && table.contains("file") && table.contains("directory"), "{table}");
    let (page, _) = run(&["env", "changes", "cow", "file", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&page).unwrap()["items"][0]["size"], 5);
    let (_, said) = run(&["env", "keep", "cow", "file"]);
    assert!(said.contains("kept 1 change"), "{said}");
    let (settled, _) = run(&["env", "drop", "cow", "--yes", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&settled).unwrap(), json!({"count": 1}));
    let (_, said) = run(&["env", "changes", "cow"]);
    assert!(said.contains("nothing was changed") || listed(&home, "").is_empty());
}
