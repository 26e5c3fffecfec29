use insta::assert_snapshot;

use crate::command_line::desk::Desk;

#[test]
fn an_export_applied_again_changes_nothing() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web", "--repo", "acme/web", "--secret", "TOKEN", "--template", "coding-default"]);
    assert_snapshot!(desk.run(&["env", "export", "web"]), @r#"
    exit code: 0
    --- stdout ---
    {
      "id": "web",
      "name": "web",
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
      "repos": {
        "default": "acme/web",
        "allowed": [
          "acme/web"
        ]
      },
      "secret_bindings": [
        {
          "name": "TOKEN",
          "required": true,
          "delivery": "env"
        }
      ],
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
      "checkpoints": {
        "before_takeover": true,
        "after_run": true,
        "keep": 10
      },
      "created_at": "[TIME]",
      "updated_at": "[TIME]"
    }
    "#);
    assert_snapshot!(desk.run(&["env", "export", "web", "-o", "web.json"]), @"
    exit code: 0
    --- stderr ---
    wrote web.json
    ");
    assert_snapshot!(desk.run(&["env", "apply", "-f", "web.json"]), @"
    exit code: 0
    --- stdout ---
    unchanged  web  web.json
    --- stderr ---
    0 created, 0 updated, 1 unchanged, 0 failed
    ");
    let before = desk.json(&["env", "view", "web"]);
    desk.done(&["env", "delete", "web", "--yes"]);
    assert_snapshot!(desk.run(&["env", "apply", "-f", "web.json"]), @"
    exit code: 0
    --- stdout ---
    created    web  web.json
    --- stderr ---
    1 created, 0 updated, 0 unchanged, 0 failed
    ");
    let after = desk.json(&["env", "view", "web"]);
    assert_eq!((&after["spec"], &after["fingerprint"]), (&before["spec"], &before["fingerprint"]));
}

#[test]
fn an_export_is_a_new_file_and_has_an_id() {
    let desk = Desk::new();
    desk.write("web.json", "mine");
    desk.done(&["env", "create", "web"]);
    assert_snapshot!(desk.run(&["env", "export", "web", "-o", "web.json"]), @"
    exit code: 3
    --- stderr ---
    error: web.json is there already (already_exists)
    hint: choose another name, or remove the file first
    ");
    assert_eq!(desk.read("web.json"), "mine");
    desk.done(&["env", "create", "Größe zwei"]);
    assert_snapshot!(desk.run(&["env", "export", "Größe zwei"]), @"
    exit code: 2
    --- stderr ---
    error: `Größe zwei` cannot be the id of a definition: `id`: must be 1 to 63 letters, digits, dots, dashes or underscores, starting with a letter or digit (invalid_definition)
    hint: give it a name of letters, digits, dots, dashes and underscores: stead env update env_[ID] --name NAME
    ");
}
