use insta::assert_snapshot;
use serde_json::Value;

use crate::command_line::desk::Desk;

#[test]
fn init_writes_openboas_default_and_never_over_a_file() {
    let desk = Desk::alone();
    assert_snapshot!(desk.run(&["init"]), @"
    exit code: 0
    --- stderr ---
    wrote .stead/environments/local-default.json
    hint: make it an environment: stead env apply -f .
    ");
    assert_snapshot!(desk.read(".stead/environments/local-default.json"), @r#"
    {
      "id": "local-default",
      "name": "Default local environment",
      "kind": "local",
      "sandbox": {
        "mode": "workspace",
        "workspace_access": "rw",
        "network_access": "enabled",
        "package_policy": "workspace"
      },
      "workspace_mount_defaults": {
        "workspace_path": "/workspace",
        "runtime_path": "/runtime"
      },
      "lease": {
        "policy": "exclusive",
        "default_ttl": "1m30s",
        "max_lifetime": "4h",
        "lock_delay": "5s",
        "unreachable": "wait",
        "at_release": "keep"
      },
      "root": {
        "view": "host"
      },
      "idle_timeout": "5m",
      "created_at": "[TIME]",
      "updated_at": "[TIME]"
    }
    "#);
    desk.write(".stead/environments/local-default.json", "mine");
    assert_snapshot!(desk.run(&["init"]), @"
    exit code: 0
    --- stderr ---
    .stead/environments/local-default.json exists and was left as it is
    ");
    assert_snapshot!(desk.run(&["init", "--json"]), @r#"
    exit code: 0
    --- stdout ---
    {
      "path": ".stead/environments/local-default.json",
      "created": false
    }
    "#);
    assert_eq!(desk.read(".stead/environments/local-default.json"), "mine");
    let files: Vec<_> = std::fs::read_dir(desk.work().join(".stead/environments")).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing half-written is left: {files:?}");
    assert!(!desk.data().exists(), "a file needs no server");
}

#[test]
fn init_follows_no_link_out_of_the_directory() {
    let desk = Desk::alone();
    let outside = desk.home().join("outside.json");
    std::fs::create_dir_all(desk.work().join(".stead/environments")).unwrap();
    std::os::unix::fs::symlink(&outside, desk.work().join(".stead/environments/local-default.json")).unwrap();
    assert_eq!(desk.json(&["init"])["created"], false);
    assert!(!outside.exists());
}

#[test]
fn many_at_once_write_it_once() {
    let desk = Desk::alone();
    let children: Vec<_> =
        (0..8).map(|_| desk.command(&["init", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap()).collect();
    let created = children.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["created"].as_bool().unwrap()
    });
    assert_eq!(created.filter(|created| *created).count(), 1);
}

#[test]
fn an_export_makes_no_directories() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["env", "export", "local-default", "-o", "no/such/file.json"]), @"
    exit code: 1
    --- stderr ---
    error: there is no directory no/such (local_file)
    hint: make it first: mkdir -p no/such
    ");
    assert!(!desk.work().join("no").exists());
    std::fs::create_dir_all(desk.work().join("no/such")).unwrap();
    desk.done(&["env", "export", "local-default", "-o", "no/such/file.json"]);
    desk.done(&["env", "export", "local-default", "-o", "here.json"]);
}

#[test]
fn what_init_writes_is_what_the_server_seeded() {
    let desk = Desk::new();
    let before = desk.json(&["env", "view", "local-default"]);
    desk.done(&["init"]);
    desk.done(&["env", "apply", "-f", "."]);
    let after = desk.json(&["env", "view", "local-default"]);
    let without_name = |value: &Value| {
        let mut spec = value["spec"].clone();
        spec.as_object_mut().unwrap().remove("name");
        spec
    };
    assert_eq!(without_name(&after), without_name(&before));
}
