//! `stead env …`, from creation to tombstone.

use insta::assert_snapshot;

use super::desk::Desk;

#[test]
fn an_environment_is_made_seen_and_deleted() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["env", "create", "web", "--repo", "acme/web", "--repo", "acme/lib", "--secret", "OPENAI_API_KEY", "--optional-secret", "SENTRY_DSN", "--tag", "team=core", "--purpose", "review"]), @"
    exit code: 0
    --- stdout ---
    name           web
    id             env_[ID]
    status         ready
    provider       local
    provider says  ready at [TIME]
    sandbox        sbx_[ID]
    purpose        review
    mode           manual
    lifetime       explicit
    retention      manual
    definition     version 1, 1d6bf115c51a
    repositories   acme/web (default), acme/lib
    secrets        OPENAI_API_KEY, SENTRY_DSN (optional)
    tags           team=core
    created        [TIME]
    updated        [TIME]

    POSTURE                   DECLARED   ENFORCEMENT
    sandbox.mode              workspace  enforced
    sandbox.workspace_access  rw         enforced
    sandbox.network_access    enabled    enforced
    sandbox.package_policy    workspace  enforced
    secret_bindings.delivery  env        enforced
    secret_bindings.delivery  env        enforced
    --- stderr ---
    created environment web
    ");
    assert_snapshot!(desk.run(&["env", "list"]), @"
    exit code: 0
    --- stdout ---
    NAME           STATUS  HELD BY  LEFT  PROVIDER  PURPOSE  AGE  ID
    web            ready                  local     review   [AGE]  env_[ID]
    local-default  ready                  local              [AGE]  env_[ID]
    ");
    assert_snapshot!(desk.run(&["env", "delete", "web", "--yes"]), @"
    exit code: 0
    --- stderr ---
    deleted environment web (env_[ID])
    ");
    assert_snapshot!(desk.run(&["env", "list"]), @"
    exit code: 0
    --- stdout ---
    NAME           STATUS  HELD BY  LEFT  PROVIDER  PURPOSE  AGE  ID
    local-default  ready                  local              [AGE]  env_[ID]
    ");
    assert_snapshot!(desk.run(&["env", "list", "--include-destroyed", "--status", "destroyed"]), @"
    exit code: 0
    --- stdout ---
    NAME  STATUS     HELD BY  LEFT  PROVIDER  PURPOSE  AGE  ID
    web   destroyed                 local     review   [AGE]  env_[ID]
    ");
    assert_snapshot!(desk.run(&["env", "view", "web"]), @"
    exit code: 4
    --- stderr ---
    error: there is no environment `web` here (not_found)
    hint: `stead env list` shows what there is
    ");
}

#[test]
fn quiet_is_the_id_alone() {
    let desk = Desk::new();
    let id = desk.done(&["env", "create", "web", "--quiet"]);
    assert_eq!(desk.json(&["env", "view", "web"])["id"], id.trim());
    assert_snapshot!(desk.run(&["env", "list", "--quiet"]), @"
    exit code: 0
    --- stdout ---
    env_[ID]
    env_[ID]
    ");
    assert_eq!(desk.done(&["env", "view", "web", "--quiet"]), id);
    assert_eq!(desk.done(&["env", "update", "web", "--name", "site", "--quiet"]), id);
    assert_eq!(desk.done(&["env", "reconcile", "site", "--quiet"]), id);
    assert_eq!(desk.done(&["env", "delete", "site", "--yes", "--quiet"]), id);
}

#[test]
fn lists_are_filtered_and_go_on_page_by_page() {
    let desk = Desk::new();
    for (name, purpose) in [("one", "review"), ("two", "debug"), ("three", "review")] {
        desk.done(&["env", "create", name, "--purpose", purpose]);
    }
    assert_snapshot!(desk.run(&["env", "list", "--purpose", "review"]), @"
    exit code: 0
    --- stdout ---
    NAME   STATUS  HELD BY  LEFT  PROVIDER  PURPOSE  AGE  ID
    three  ready                  local     review   [AGE]  env_[ID]
    one    ready                  local     review   [AGE]  env_[ID]
    ");
    let output = desk.output(&["env", "ls", "--limit", "3"]);
    let hint = String::from_utf8(output.stderr).unwrap();
    assert!(hint.starts_with("hint: there is more: --cursor ") && hint.ends_with(", or --all\n"), "{hint}");
    let cursor = hint.trim_start_matches("hint: there is more: --cursor ").split(',').next().unwrap();
    assert_snapshot!(desk.run(&["env", "list", "--cursor", cursor]), @"
    exit code: 0
    --- stdout ---
    NAME           STATUS  HELD BY  LEFT  PROVIDER  PURPOSE  AGE  ID
    local-default  ready                  local              [AGE]  env_[ID]
    ");
    assert_eq!(desk.done(&["env", "list", "--limit", "1", "--all", "--quiet"]).lines().count(), 4);
    assert_snapshot!(desk.run(&["env", "list", "--cursor", "nonsense"]), @"
    exit code: 2
    --- stderr ---
    error: the cursor was not made by this list (invalid_cursor)
    hint: start again without `cursor`
    ");
    assert_snapshot!(desk.run(&["env", "list", "--provider", "docker"]), @"
    exit code: 0
    --- stderr ---
    no environment in project default fits
    ");
}

#[test]
fn every_edit_is_a_version_that_can_be_compared_and_brought_back() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web"]);
    assert_snapshot!(desk.run(&["env", "update", "web", "--set", "env.CI=\"1\"", "--set", "idle_timeout=10m"]), @"
    exit code: 0
    --- stdout ---
    name           web
    id             env_[ID]
    status         ready
    provider       local
    provider says  ready at [TIME]
    sandbox        sbx_[ID]
    mode           manual
    lifetime       explicit
    retention      manual
    definition     version 2, ddbbec5f0d74
    created        [TIME]
    updated        [TIME]

    POSTURE                   DECLARED   ENFORCEMENT
    sandbox.mode              workspace  enforced
    sandbox.workspace_access  rw         enforced
    sandbox.network_access    enabled    enforced
    sandbox.package_policy    workspace  enforced
    --- stderr ---
    updated environment web: definition version 1 is now 2
    ");
    desk.done(&["env", "update", "web", "--set", "setup.script=make deps", "--set", "idle_timeout=null"]);
    assert!(desk.done(&["env", "history", "web"]).lines().all(|line| line.chars().count() <= 80));
    assert_snapshot!(desk.run(&["env", "history", "web"]), @"
    exit code: 0
    --- stdout ---
    VERSION  CREATED               BY      FINGERPRINT   NOTE
    3        [SECOND]  olivia  5062ff65e271
    2        [SECOND]  olivia  ddbbec5f0d74
    1        [SECOND]  olivia  3dc9d3d6fd79
    ");
    assert_snapshot!(desk.run(&["env", "history", "web", "--diff", "1", "3"]), @r#"
    exit code: 0
    --- stdout ---
    FIELD  VERSION 1  VERSION 3
    env    -          {"CI":"1"}
    setup  -          {"script":"make deps"}
    "#);
    assert_snapshot!(desk.run(&["env", "history", "web", "--diff", "2", "2"]), @"
    exit code: 0
    --- stderr ---
    versions 2 and 2 are equal
    ");
    assert_snapshot!(desk.run(&["env", "history", "web", "--diff", "1", "9"]), @"
    exit code: 4
    --- stderr ---
    error: there is no version `9` here (not_found)
    hint: `stead env history` shows the versions
    ");
    let output = desk.output(&["env", "rollback", "web", "1"]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "version 4 of web is what version 1 was\n");
    assert_snapshot!(desk.run(&["env", "history", "web", "--diff", "1", "4"]), @"
    exit code: 0
    --- stderr ---
    versions 1 and 4 are equal
    ");
    assert_snapshot!(desk.run(&["env", "history", "web", "--limit", "1"]), @"
    exit code: 0
    --- stdout ---
    VERSION  CREATED               BY      FINGERPRINT   NOTE
    4        [SECOND]  olivia  3dc9d3d6fd79  back to 1
    --- stderr ---
    hint: there is more: --cursor 0134, or --all
    ");
    assert_snapshot!(desk.run(&["env", "rollback", "web", "17"]), @"
    exit code: 4
    --- stderr ---
    error: there is no version `17` here (not_found)
    hint: `stead env history` shows the versions
    ");
}

#[test]
fn an_update_without_a_new_definition_makes_no_version() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web", "--tag", "team=core"]);
    let output = desk.output(&["env", "update", "web", "--name", "site", "--tag", "tier=1", "--purpose", "debug"]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "updated environment site\n");
    let site = desk.json(&["env", "view", "site"]);
    assert_eq!((&site["spec_version"], &site["tags"]), (&1.into(), &serde_json::json!({ "tier": "1" })));
}

#[test]
fn an_update_that_cannot_be_is_refused_with_the_field() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web"]);
    assert_snapshot!(desk.run(&["env", "update", "web"]), @"
    exit code: 2
    --- stderr ---
    error: nothing to change was named; see `stead env update --help` (usage)
    ");
    assert_snapshot!(desk.run(&["env", "update", "web", "--set", "sandbox.network_access=sometimes"]), @"
    exit code: 2
    --- stderr ---
    error: `spec.sandbox.network_access`: unknown variant `sometimes`, expected one of `disabled`, `allowlist`, `enabled` (invalid_field)
    hint: see /docs/ for the fields and values that are taken
    ");
    assert_snapshot!(desk.run(&["env", "update", "web", "--set", "colour=green"]), @"
    exit code: 2
    --- stderr ---
    error: `spec.colour`: unknown field `colour`, expected one of `id`, `name`, `kind`, `provider`, `sandbox`, `workspace_mount_defaults`, `mounts`, `repos`, `secret_bindings`, `lease`, `env`, `root`, `ports`, `idle_timeout`, `checkpoints`, `artifacts`, `providers`, `setup`, `created_at`, `updated_at` (invalid_field)
    hint: see /docs/ for the fields and values that are taken
    ");
    assert_snapshot!(desk.run(&["env", "update", "web", "--set", "ports[0].port=1"]), @r#"
    exit code: 2
    --- stderr ---
    error: `ports[0].port` is not a path of field names such as sandbox.network_access (usage)
    hint: set a whole list as JSON, e.g. --set 'ports=[{"port": 3000}]'
    "#);
    assert_snapshot!(desk.run(&["env", "update", "web", "--set", "nothing"]), @"
    exit code: 2
    --- stderr ---
    error: invalid value 'nothing' for '--set <PATH=VALUE>': it should look like key=value

    For more information, try '--help'.
    ");
    assert_snapshot!(desk.run(&["env", "update", "web", "--name", "local-default"]), @"
    exit code: 3
    --- stderr ---
    error: the name `local-default` is taken (already_exists)
    hint: choose another name, or delete the environment that has it
    ");
    assert_eq!(desk.json(&["env", "view", "web"])["spec_version"], 1);
}

#[test]
fn a_creation_that_cannot_be_is_refused_with_a_next_step() {
    let desk = Desk::new();
    assert_snapshot!(desk.run(&["env", "create", "LOCAL-Default"]), @"
    exit code: 3
    --- stderr ---
    error: the name `LOCAL-Default` is taken (already_exists)
    hint: choose another name, or delete the environment that has it
    ");
    assert_snapshot!(desk.run(&["env", "create", "a/b"]), @"
    exit code: 2
    --- stderr ---
    error: `name`: must be 1 to 128 letters, digits, spaces, dots, dashes or underscores, starting with a letter or digit and not ending in a space or dot (invalid_field)
    ");
    desk.write(
        "brokered.json",
        r#"{ "secret_bindings": [{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"], "inject": { "body": true } }] }"#,
    );
    assert_snapshot!(desk.run(&["env", "create", "quiet", "--spec", "brokered.json"]), @"
    exit code: 3
    --- stderr ---
    error: `spec.secret_bindings.inject.body`: provider `local` does not enforce `true` (posture_not_enforced)
    hint: choose a value that `stead http GET providers` lists as enforced, another provider, or accept that it is not enforced with `allow_unenforced: true` (`--allow-unenforced`)
    ");
    assert_snapshot!(desk.run(&["env", "create", "far", "--provider", "daytona"]), @"
    exit code: 3
    --- stderr ---
    error: provider `daytona` is not configured on this server: it needs DAYTONA_API_KEY and DAYTONA_API_URL in the server's environment (provider_not_configured)
    hint: set that and try again, or use provider `local`; `stead provider list` shows what is configured
    ");
    assert_snapshot!(desk.run(&["env", "create", "web", "--repo", "web"]), @"
    exit code: 2
    --- stderr ---
    error: `spec.repos.allowed[0]`: must be `owner/name` (invalid_field)
    hint: write it as in the repository's address, such as acme/web
    ");
    assert_snapshot!(desk.run(&["env", "create", "web", "--allow-host", "example.org", "--network", "enabled"]), @"
    exit code: 2
    --- stderr ---
    error: --allow-host is only used with --network allowlist (usage)
    ");
    assert_snapshot!(desk.run(&["env", "create", "web", "--sandbox", "sbx_none"]), @"
    exit code: 4
    --- stderr ---
    error: there is no sandbox `sbx_none` here (not_found)
    hint: `stead sandbox list` shows what there is
    ");
    assert_eq!(desk.json(&["env", "list"])["items"].as_array().unwrap().len(), 1, "nothing half-made stays");
}

#[test]
fn a_posture_that_is_not_enforced_is_shown_as_such() {
    let desk = Desk::new();
    let brokered = r#"{ "secret_bindings": [{ "name": "TOKEN", "required": true, "delivery": "broker", "hosts": ["api.example.org"], "inject": { "body": true } }] }"#;
    desk.write("brokered.json", brokered);
    desk.done(&["env", "create", "quiet", "--spec", "brokered.json", "--allow-unenforced"]);
    let shown = desk.run(&["env", "view", "quiet"]);
    let posture: Vec<_> = shown.lines().skip_while(|line| !line.starts_with("POSTURE")).collect();
    assert_snapshot!(posture.join("
"), @"
    POSTURE                      DECLARED   ENFORCEMENT
    sandbox.mode                 workspace  enforced
    sandbox.workspace_access     rw         enforced
    sandbox.network_access       enabled    enforced
    sandbox.package_policy       workspace  enforced
    secret_bindings.delivery     broker     enforced
    secret_bindings.inject.body  true       unsupported  !
    ");
}

#[test]
fn the_hosts_that_are_allowed_are_shown_with_the_posture() {
    let desk = Desk::new();
    desk.done(&["env", "create", "listed", "--network", "allowlist", "--allow-host", "b.example:8443", "--allow-host", "*.a.example"]);
    for shown in [desk.done(&["env", "view", "listed"]), desk.done(&["env", "posture", "listed"])] {
        assert!(shown.contains("sandbox.network_access    allowlist: b.example:8443, *.a.example  enforced"), "{shown}");
    }
    desk.done(&["env", "create", "empty", "--network", "allowlist"]);
    assert!(desk.done(&["env", "posture", "empty"]).contains("allowlist: no host"));
}

#[test]
fn a_definition_comes_from_a_file_or_from_stdin() {
    let desk = Desk::new();
    desk.write("part.json", r#"{ "idle_timeout": "1h" }"#);
    desk.done(&["env", "create", "one", "--spec", "part.json"]);
    assert_eq!(desk.json(&["env", "view", "one"])["spec"]["idle_timeout"], "1h");
    assert!(desk.run_fed(&["env", "create", "two", "--spec", "-", "--quiet"], r#"{ "env": { "CI": "1" } }"#).starts_with("exit code: 0"));
    assert!(desk.run_fed(&["env", "update", "two", "--spec", "-"], r#"{ "env": null }"#).starts_with("exit code: 0"));
    assert!(desk.json(&["env", "view", "two"])["spec"].get("env").is_none());
    assert_snapshot!(desk.run_fed(&["env", "create", "three", "--spec", "-"], "{ \"idle_timeout\": }"), @"
    exit code: 2
    --- stderr ---
    error: stdin: not valid JSON: expected value at line 1, column 19 (malformed_definition)
    hint: mend the file and try again
    ");
    assert_snapshot!(desk.run_fed(&["env", "create", "three", "--spec", "-"], r#"{ "idle_timeout": "soon" }"#), @"
    exit code: 2
    --- stderr ---
    error: `spec.idle_timeout`: `soon` is not a duration such as 90s, 30m or 1h30m (invalid_field)
    hint: see /docs/ for the fields and values that are taken
    ");
    assert_snapshot!(desk.run(&["env", "create", "three", "--spec", "none.json"]), @"
    exit code: 4
    --- stderr ---
    error: there is no definition at none.json (definition_not_found)
    hint: `stead init` writes one
    ");
}

#[test]
fn what_is_lost_by_deleting_is_asked_for_first() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web"]);
    assert_snapshot!(desk.run(&["env", "delete", "web"]), @"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Delete web and everything in it? (usage)
    hint: say --yes to go ahead
    ");
    assert_snapshot!(desk.run(&["env", "delete", "web", "local-default"]), @"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Delete web, local-default and everything in them? (usage)
    hint: say --yes to go ahead
    ");
    assert_eq!(desk.code(&["env", "delete", "web", "nope", "--yes"]), 4, "a typing error deletes nothing");
    assert_eq!(desk.json(&["env", "list"])["items"].as_array().unwrap().len(), 2);
    assert_snapshot!(desk.run(&["env", "rm", "web", "local-default", "web", "-y"]), @"
    exit code: 0
    --- stderr ---
    deleted environment web (env_[ID])
    deleted environment local-default (env_[ID])
    ");
    assert_snapshot!(desk.run(&["env", "list"]), @"
    exit code: 0
    --- stderr ---
    no environments in project default yet; make one: stead env create NAME
    ");
}

#[test]
fn reconcile_shows_what_the_provider_says() {
    let desk = Desk::new();
    let web = desk.json(&["env", "create", "web"]);
    let sandbox = desk.data().join("sandboxes").join(web["sandbox_id"].as_str().unwrap());
    std::fs::remove_dir_all(sandbox).unwrap();
    assert_snapshot!(desk.run(&["env", "reconcile", "web"]), @"
    exit code: 0
    --- stdout ---
    name           web
    id             env_[ID]
    status         orphaned
    last error     the directory [DATA]/sandboxes/sbx_[ID] is gone
    provider       local
    provider says  missing at [TIME]
    message        the directory [DATA]/sandboxes/sbx_[ID] is gone
    sandbox        sbx_[ID]
    mode           manual
    lifetime       explicit
    retention      manual
    definition     version 1, 3dc9d3d6fd79
    created        [TIME]
    updated        [TIME]

    POSTURE                   DECLARED   ENFORCEMENT
    sandbox.mode              workspace  enforced
    sandbox.workspace_access  rw         enforced
    sandbox.network_access    enabled    enforced
    sandbox.package_policy    workspace  enforced
    ");
    assert_snapshot!(desk.run(&["env", "list", "--status", "orphaned"]), @"
    exit code: 0
    --- stdout ---
    NAME  STATUS    HELD BY  LEFT  PROVIDER  PURPOSE  AGE  ID
    web   orphaned                 local              [AGE]  env_[ID]
    ");
    desk.done(&["env", "delete", "web", "--yes"]);
}
