use insta::assert_snapshot;
use serde_json::Value;

use crate::command_line::desk::Desk;

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
    desk.write(
        "set/b.json",
        r#"{ "id": "b", "secret_bindings": [{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"], "inject": { "body": true } }] }"#,
    );
    desk.write("set/c.json", r#"{ "id": "c" }"#);
    assert_snapshot!(desk.run(&["env", "apply", "-f", "set"]), @"
    exit code: 3
    --- stdout ---
    created    a  set/a.json
    created    c  set/c.json
    --- stderr ---
    failed     b  set/b.json
    error: `spec.secret_bindings.inject.body`: provider `local` does not enforce `true` (posture_not_enforced)
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
    desk.write("quiet.json", r#"{ "id": "quiet", "secret_bindings": [{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"], "inject": { "body": true } }] }"#);
    assert_snapshot!(desk.run(&["env", "apply", "-f", "quiet.json"]), @"
    exit code: 3
    --- stderr ---
    failed     quiet  quiet.json
    error: `spec.secret_bindings.inject.body`: provider `local` does not enforce `true` (posture_not_enforced)
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
