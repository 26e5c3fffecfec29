use insta::assert_snapshot;
use serde_json::json;

use crate::command_line::desk::Desk;

const OPENBOA: &str = r#"{
  "id": "local-default",
  "name": "Default local environment",
  "kind": "local",
  "sandbox": {
    "mode": "workspace",
    "workspaceAccess": "rw",
    "networkAccess": "enabled",
    "packagePolicy": "workspace"
  },
  "workspaceMountDefaults": {
    "workspacePath": "/workspace",
    "runtimePath": "/runtime"
  },
  "createdAt": "2026-01-02T03:04:05.678Z",
  "updatedAt": "2026-01-02T03:04:05.678Z"
}
"#;

#[test]
fn they_are_read_as_they_are() {
    let desk = Desk::new();
    desk.write(".openboa/environments/local-default.json", OPENBOA);
    desk.write(".openboa/environments/reading.json", &OPENBOA.replace("local-default", "reading"));
    assert_snapshot!(desk.run(&["env", "apply", "-f", "."]), @"
    exit code: 0
    --- stdout ---
    updated    local-default  ./.openboa/environments/local-default.json
    created    reading  ./.openboa/environments/reading.json
    --- stderr ---
    1 created, 1 updated, 0 unchanged, 0 failed
    ");
    let reading = desk.json(&["env", "view", "reading"]);
    assert_eq!(
        reading["spec"]["sandbox"],
        json!({ "mode": "workspace", "workspace_access": "rw", "network_access": "enabled", "package_policy": "workspace" })
    );
    assert_eq!(reading["spec"]["workspace_mount_defaults"], json!({ "workspace_path": "/workspace", "runtime_path": "/runtime" }));
    assert_eq!(desk.read(".openboa/environments/reading.json"), OPENBOA.replace("local-default", "reading"), "and left as they are");
}

#[test]
fn ours_come_before_theirs() {
    let desk = Desk::new();
    desk.write(".openboa/environments/web.json", &OPENBOA.replace("local-default", "web"));
    desk.write(".stead/environments/web.json", r#"{ "id": "web", "idle_timeout": "1h" }"#);
    assert_snapshot!(desk.run(&["env", "apply", "-f", "."]), @"
    exit code: 0
    --- stdout ---
    created    web  ./.stead/environments/web.json
    --- stderr ---
    1 created, 0 updated, 0 unchanged, 0 failed
    ");
    assert_eq!(desk.json(&["env", "view", "web"])["spec"]["idle_timeout"], "1h");
}

#[test]
fn a_field_that_they_do_not_have_is_an_error() {
    let desk = Desk::new();
    desk.write("web.json", &OPENBOA.replace("local-default", "web").replace("\"mode\"", "\"colour\": 1, \"mode\""));
    assert_snapshot!(desk.run(&["env", "apply", "-f", "web.json"]), @"
    exit code: 2
    --- stderr ---
    error: web.json: `sandbox.colour`: unknown field `colour`, expected one of `mode`, `workspaceAccess`, `networkAccess`, `packagePolicy` (invalid_definition)
    hint: see /docs/ for the fields and values that are taken
    ");
}
