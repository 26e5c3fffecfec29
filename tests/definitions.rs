//! Definitions as files: written, applied, exported and refused.

use insta::assert_snapshot;
use serde_json::{Value, json};

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

mod applying {
    use super::*;

    #[test]
    fn the_same_file_twice_changes_nothing() {
        let desk = Desk::new();
        desk.write("web.json", r#"{ "id": "web", "idle_timeout": "1h", "repos": { "default": "acme/web", "allowed": ["acme/web"] } }"#);
        assert_snapshot!(desk.run(&["env", "apply", "-f", "web.json"]), @"
        exit code: 0
        --- stdout ---
        created    web  web.json
        --- stderr ---
        1 created, 0 updated, 0 unchanged, 0 failed
        ");
        assert_snapshot!(desk.run(&["env", "apply", "-f", "web.json"]), @"
        exit code: 0
        --- stdout ---
        unchanged  web  web.json
        --- stderr ---
        0 created, 0 updated, 1 unchanged, 0 failed
        ");
        assert_eq!(desk.json(&["env", "view", "web"])["spec_version"], 1);
        desk.write("web.json", r#"{ "id": "web", "idle_timeout": "2h" }"#);
        assert_snapshot!(desk.run(&["env", "apply", "-f", "web.json"]), @"
        exit code: 0
        --- stdout ---
        updated    web  web.json
        --- stderr ---
        0 created, 1 updated, 0 unchanged, 0 failed
        ");
        assert_snapshot!(desk.run(&["env", "history", "web", "--diff", "1", "2"]), @r#"
        exit code: 0
        --- stdout ---
        FIELD         VERSION 1                                      VERSION 2
        idle_timeout  "1h"                                           "2h"
        repos         {"default":"acme/web","allowed":["acme/web"]}  -
        "#);
    }

    #[test]
    fn a_directory_means_its_files() {
        let desk = Desk::new();
        desk.write(".stead/environments/api.json", r#"{ "id": "api" }"#);
        desk.write(".stead/environments/web.json", r#"{ "id": "web" }"#);
        desk.write(".stead/environments/notes.txt", "not a definition");
        desk.write(".stead/environments/.hidden.json", "not a definition");
        assert_snapshot!(desk.run(&["env", "apply", "-f", "."]), @"
        exit code: 0
        --- stdout ---
        created    api  ./.stead/environments/api.json
        created    web  ./.stead/environments/web.json
        --- stderr ---
        2 created, 0 updated, 0 unchanged, 0 failed
        ");
        assert_snapshot!(desk.run(&["env", "apply", "-f", ".stead/environments"]), @"
        exit code: 0
        --- stdout ---
        unchanged  api  .stead/environments/api.json
        unchanged  web  .stead/environments/web.json
        --- stderr ---
        0 created, 0 updated, 2 unchanged, 0 failed
        ");
        let applied = desk.json(&["env", "apply", "-f", "."]);
        let outcomes: Vec<&Value> = applied["items"].as_array().unwrap().iter().map(|item| &item["outcome"]).collect();
        assert_eq!(outcomes, ["unchanged", "unchanged"]);
        assert_eq!(applied["items"][1]["environment"], desk.json(&["env", "view", "web"]));
    }

    #[test]
    fn one_bad_file_keeps_all_from_being_applied() {
        let desk = Desk::new();
        desk.write("set/a.json", r#"{ "id": "a" }"#);
        desk.write("set/b.json", r#"{ "id": "b", "kind": "cloud" }"#);
        assert_snapshot!(desk.run(&["env", "apply", "-f", "set"]), @"
        exit code: 2
        --- stderr ---
        error: set/b.json: `kind`: unknown variant `cloud`, expected one of `local`, `worker`, `sprite`, `sprites`, `daytona`, `docker`, `cloudflare_containers` (invalid_definition)
        hint: see /docs/ for the fields and values that are taken
        ");
        desk.write("more/a.json", r#"{ "id": "a" }"#);
        assert_snapshot!(desk.run(&["env", "apply", "-f", "set/a.json", "-f", "more"]), @"
        exit code: 2
        --- stderr ---
        error: `a` is defined twice, in set/a.json and in more/a.json (invalid_definition)
        hint: leave one of them out
        ");
        assert_eq!(desk.json(&["env", "list"])["items"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn create_uses_the_nearest_file_of_that_name() {
        let desk = Desk::new();
        desk.write(".stead/environments/web.json", r#"{ "id": "web", "idle_timeout": "1h" }"#);
        std::fs::create_dir_all(desk.work().join("deep/down")).unwrap();
        let output = desk.command(&["env", "create", "web", "--json"]).current_dir(desk.work().join("deep/down")).output().unwrap();
        let web: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(web["spec"]["idle_timeout"], "1h");
        desk.write(".stead/environments/bad.json", "{");
        assert_eq!(desk.error(&["env", "create", "bad"])["code"], "malformed_definition");
    }

    #[test]
    fn one_that_fails_keeps_none_of_the_others_back() {
        let desk = Desk::new();
        desk.write("set/a.json", r#"{ "id": "a" }"#);
        desk.write("set/b.json", r#"{ "id": "b", "secret_bindings": [{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"] }] }"#);
        desk.write("set/c.json", r#"{ "id": "c" }"#);
        assert_snapshot!(desk.run(&["env", "apply", "-f", "set"]), @"
        exit code: 3
        --- stdout ---
        created    a  set/a.json
        created    c  set/c.json
        --- stderr ---
        failed     b  set/b.json
        error: `spec.secret_bindings.delivery`: provider `local` does not enforce `broker` (posture_not_enforced)
        hint: choose a value that `stead http GET providers` lists as enforced, another provider, or accept that it is not enforced with `allow_unenforced: true` (`--allow-unenforced`)
        2 created, 0 updated, 0 unchanged, 1 failed
        ");
        let output = desk.output(&["env", "apply", "-f", "set", "--json"]);
        assert_eq!(output.status.code(), Some(3));
        assert!(output.stderr.is_empty());
        let applied: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(applied["summary"], serde_json::json!({ "created": 0, "updated": 0, "unchanged": 2, "failed": 1 }));
        let failed = &applied["items"][1];
        assert_eq!((&failed["outcome"], &failed["error"]["code"]), (&"failed".into(), &"posture_not_enforced".into()), "{applied}");
        // A file that is not valid keeps all of them back.
        desk.write("set/d.json", "{");
        desk.write("set/a.json", r#"{ "id": "a", "idle_timeout": "1h" }"#);
        assert_eq!(desk.error(&["env", "apply", "-f", "set"])["code"], "malformed_definition");
        assert_eq!(desk.json(&["env", "view", "a"])["spec_version"], 1);
    }

    #[test]
    fn a_posture_that_is_not_enforced_is_refused_unless_accepted() {
        let desk = Desk::new();
        desk.write("quiet.json", r#"{ "id": "quiet", "secret_bindings": [{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"] }] }"#);
        assert_snapshot!(desk.run(&["env", "apply", "-f", "quiet.json"]), @"
        exit code: 3
        --- stderr ---
        failed     quiet  quiet.json
        error: `spec.secret_bindings.delivery`: provider `local` does not enforce `broker` (posture_not_enforced)
        hint: choose a value that `stead http GET providers` lists as enforced, another provider, or accept that it is not enforced with `allow_unenforced: true` (`--allow-unenforced`)
        0 created, 0 updated, 0 unchanged, 1 failed
        ");
        assert_snapshot!(desk.run(&["env", "apply", "-f", "quiet.json", "--allow-unenforced"]), @"
        exit code: 0
        --- stdout ---
        created    quiet  quiet.json
        --- stderr ---
        1 created, 0 updated, 0 unchanged, 0 failed
        ");
    }
}

mod initial {
    use super::*;

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
}

mod exporting {
    use super::*;

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
}

mod openboas_files {
    use super::*;

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
}

/// Missing, malformed and invalid are three different errors, with the position or the field. What openboa takes silently is refused here.
mod refused {
    use super::*;

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
}
