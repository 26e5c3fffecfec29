//! Missing, malformed and invalid are three different errors, with the position or the field. What openboa takes silently is refused here.

use insta::assert_snapshot;
use serde_json::json;

use crate::command_line::desk::Desk;

#[test]
fn a_file_that_is_not_there() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["env", "apply", "-f", "nope.json"]), @"
    exit code: 4
    --- stderr ---
    error: there is no definition at nope.json (definition_not_found)
    hint: `stead init` writes one
    ");
    std::fs::create_dir(desk.work().join("empty")).unwrap();
    assert_snapshot!(desk.run(&["env", "apply", "-f", "empty"]), @"
    exit code: 4
    --- stderr ---
    error: there is no definition at empty (definition_not_found)
    hint: `stead init` writes one
    ");
}

#[test]
fn a_file_that_is_not_json() {
    let desk = Desk::new();
    desk.write("bad.json", "{\n  \"id\": \"bad\",\n  \"sandbox\": }\n");
    assert_snapshot!(desk.run(&["env", "apply", "-f", "bad.json"]), @"
    exit code: 2
    --- stderr ---
    error: bad.json: not valid JSON: expected value at line 3, column 14 (malformed_definition)
    hint: check the JSON text at that position
    ");
    let error = desk.error(&["env", "apply", "-f", "bad.json"]);
    assert_eq!(
        (&error["details"]["line"], &error["details"]["column"], &error["details"]["path"]),
        (&3.into(), &14.into(), &"bad.json".into())
    );
    desk.write("bad.json", "");
    assert_snapshot!(desk.run(&["env", "apply", "-f", "bad.json"]), @"
    exit code: 2
    --- stderr ---
    error: bad.json: not valid JSON: EOF while parsing a value at line 1, column 0 (malformed_definition)
    hint: check the JSON text at that position
    ");
    desk.write("bad.json", "{ \"id\": \"bad\" } {}");
    assert_snapshot!(desk.run(&["env", "apply", "-f", "bad.json"]), @"
    exit code: 2
    --- stderr ---
    error: bad.json: not valid JSON: trailing characters at line 1, column 17 (malformed_definition)
    hint: check the JSON text at that position
    ");
}

#[test]
fn a_field_that_is_wrong() {
    let desk = Desk::new();
    let apply = |text: &str| {
        desk.write("web.json", text);
        desk.run(&["env", "apply", "-f", "web.json"])
    };
    assert_snapshot!(apply(r#"{ "id": "web", "kind": "cloud" }"#), @"
    exit code: 2
    --- stderr ---
    error: web.json: `kind`: unknown variant `cloud`, expected one of `local`, `worker`, `sprite`, `sprites`, `daytona`, `docker`, `cloudflare_containers` (invalid_definition)
    hint: see /docs/ for the fields and values that are taken
    ");
    assert_snapshot!(apply(r#"{ "id": "web", "sandbox": { "workspace_access": "all" } }"#), @"
    exit code: 2
    --- stderr ---
    error: web.json: `sandbox.workspace_access`: unknown variant `all`, expected one of `none`, `ro`, `rw`, `cow` (invalid_definition)
    hint: see /docs/ for the fields and values that are taken
    ");
    assert_snapshot!(apply(r#"{ "id": "web", "sandbox": { "wokspace_access": "rw" } }"#), @"
    exit code: 2
    --- stderr ---
    error: web.json: `sandbox.wokspace_access`: unknown field `wokspace_access`, expected one of `mode`, `workspace_access`, `network_access`, `allowed_hosts`, `package_policy`, `resources`, `protected_paths`, `hidden_paths`, `allow_ptrace` (invalid_definition)
    hint: see /docs/ for the fields and values that are taken
    ");
    assert_snapshot!(apply(r#"{ "id": "web", "colour": "green" }"#), @"
    exit code: 2
    --- stderr ---
    error: web.json: `colour`: unknown field `colour`, expected one of `id`, `name`, `kind`, `provider`, `sandbox`, `workspace_mount_defaults`, `mounts`, `repos`, `secret_bindings`, `lease`, `env`, `root`, `ports`, `idle_timeout`, `checkpoints`, `artifacts`, `providers`, `setup`, `created_at`, `updated_at` (invalid_definition)
    hint: see /docs/ for the fields and values that are taken
    ");
    assert_snapshot!(apply(r#"{ "id": "web", "ports": [{ "port": 80 }, { "port": 70000 }] }"#), @"
    exit code: 2
    --- stderr ---
    error: web.json: `ports[1].port`: invalid value: integer `70000`, expected u16 (invalid_definition)
    hint: see /docs/ for the fields and values that are taken
    ");
    assert_snapshot!(apply(r#"{ "id": "web", "workspace_mount_defaults": { "workspace_path": "../up" } }"#), @"
    exit code: 2
    --- stderr ---
    error: web.json: `workspace_mount_defaults.workspace_path`: must be an absolute path (invalid_definition)
    hint: mend the file and try again
    ");
    assert_snapshot!(apply(r#"{ "id": "web", "kind": "local", "provider": "docker" }"#), @"
    exit code: 2
    --- stderr ---
    error: web.json: `spec.kind` says `local` and `spec.provider` says `docker`, but they name one thing (invalid_definition)
    hint: leave one of them out or make them equal
    ");
    assert_snapshot!(apply("[]"), @"
    exit code: 2
    --- stderr ---
    error: web.json: `body`: invalid type: sequence, expected struct Spec (invalid_definition)
    hint: see /docs/ for the fields and values that are taken
    ");
    let error = desk.error(&["env", "apply", "-f", "web.json"]);
    assert_eq!(error["code"], "invalid_definition");
}

#[test]
fn a_file_without_an_id_or_with_another_ones() {
    let desk = Desk::new();
    desk.write("web.json", "{}");
    assert_snapshot!(desk.run(&["env", "apply", "-f", "web.json"]), @r#"
    exit code: 2
    --- stderr ---
    error: web.json: `id`: is missing (invalid_definition)
    hint: add "id": "web"
    "#);
    desk.write("web.json", r#"{ "id": "other", "kind": "local" }"#);
    assert_snapshot!(desk.run(&["env", "apply", "-f", "web.json"]), @"
    exit code: 2
    --- stderr ---
    error: web.json: `id`: is `other`, but the file is named for `web` (invalid_definition)
    hint: rename the file or mend the id
    ");
    assert_eq!(desk.json(&["env", "list"])["items"].as_array().unwrap().len(), 1);
}

#[test]
fn an_id_that_leads_out_of_the_directory() {
    let desk = Desk::new();
    desk.write(".stead/agents/alpha/agent.json", r#"{ "id": "../agents/alpha/agent" }"#);
    assert_eq!(desk.code(&["env", "create", "../agents/alpha/agent"]), 2, "a name, and not a path to a file");
    assert_snapshot!(desk.run(&["env", "create", "../agents/alpha/agent"]), @"
    exit code: 2
    --- stderr ---
    error: `name`: must be 1 to 128 letters, digits, spaces, dots, dashes or underscores, starting with a letter or digit and not ending in a space or dot (invalid_field)
    ");
    assert_snapshot!(desk.run(&["env", "apply", "-f", ".stead/agents/alpha/agent.json"]), @"
    exit code: 2
    --- stderr ---
    error: .stead/agents/alpha/agent.json: `id`: is `../agents/alpha/agent`, but the file is named for `agent` (invalid_definition)
    hint: rename the file or mend the id
    ");
    for id in ["../../evil", "/etc/passwd", "..", ".", "a/b", "a\\b", "-rf", "a b", ""] {
        desk.write("evil.json", &json!({ "id": id }).to_string());
        assert_eq!(desk.error(&["env", "apply", "-f", "evil.json"])["code"], "invalid_definition", "{id:?}");
    }
    for name in ["../../evil", "/etc/passwd", "..", "a/b", "a\nb"] {
        assert_eq!(desk.code(&["env", "create", name]), 2, "{name:?}");
        assert_eq!(desk.code(&["env", "update", "local-default", "--name", name]), 2, "{name:?}");
    }
    assert!(!desk.home().join("evil.json").exists() && !desk.home().join("work.json").exists());
}

#[test]
fn a_file_that_is_no_file_or_too_large() {
    let desk = Desk::new();
    desk.write("huge.json", &format!("{{ \"id\": \"huge\", \"name\": \"{}\" }}", "x".repeat(1 << 20)));
    assert_snapshot!(desk.run(&["env", "apply", "-f", "huge.json"]), @"
    exit code: 2
    --- stderr ---
    error: huge.json is larger than 1 MiB, which no definition is (invalid_definition)
    ");
    let made = std::process::Command::new("mkfifo").arg(desk.work().join("pipe.json")).status().unwrap();
    assert!(made.success());
    assert_snapshot!(desk.run(&["env", "apply", "-f", "pipe.json"]), @"
    exit code: 1
    --- stderr ---
    error: pipe.json is not a file (local_file)
    ");
    desk.write("deep.json", &format!("{{ \"id\": \"deep\", \"env\": {}1{} }}", "[".repeat(5000), "]".repeat(5000)));
    assert_eq!(desk.error(&["env", "apply", "-f", "deep.json"])["code"], "malformed_definition");
}

#[test]
fn an_unknown_name_makes_nothing() {
    let desk = Desk::alone();
    let output = desk.output(&["env", "apply", "-f", "nope.json"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(!desk.data().exists(), "a file that is not there starts no server and makes no directory");
}
