//! `stead backup` and `stead restore`.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;

use super::desk::Desk;

/// Fences that were given out before a restore must all be below those after it.
const JUMP: u64 = 1 << 32;

#[test]
fn a_backup_of_a_running_server_is_restored_elsewhere() {
    let desk = Desk::new();
    desk.done(&["env", "create", "web", "--tag", "team=core"]);
    desk.done(&["project", "create", "acme"]);
    let before = (desk.json(&["env", "view", "web"]), desk.json(&["project", "list"]), desk.json(&["audit"]));
    assert_snapshot!(desk.run(&["backup", "stead.backup"]), @"
    exit code: 0
    --- stderr ---
    wrote [WORK]/stead.backup; it holds every record, but neither the workspaces nor master.key: keep that one beside it, and both as safe as the data directory
    ");
    assert_eq!(std::fs::metadata(desk.work().join("stead.backup")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!desk.read("stead.backup").contains(&desk.server().owner_key()), "keys are kept as hashes");

    let other = Desk::alone();
    let file = desk.work().join("stead.backup");
    assert_snapshot!(other.run(&["restore", file.to_str().unwrap()]).replace(file.to_str().unwrap(), "[BACKUP]"), @"
    exit code: 0
    --- stderr ---
    restored [BACKUP]; workspaces made since that backup are kept without a record until `stead prune`, and what was deleted since has a record again but no workspace (`stead env reconcile` tells)
    hint: stead up
    ");
    other.done(&["up"]);
    let mut web = other.json(&["env", "view", "web"]);
    // Its workspace stayed on the other host, and the record says so; everything else is the same.
    assert_eq!(web["runtime"]["host"], before.0["runtime"]["host"]);
    web["runtime"] = before.0["runtime"].clone();
    assert_eq!(web, before.0);
    assert_eq!(other.json(&["project", "list"]), before.1);
    assert_eq!(other.json(&["audit"]), before.2);
    other.done(&["down"]);
}

#[test]
fn every_fence_jumps_ahead() {
    let desk = Desk::alone();
    let sandbox = desk.json(&["env", "create", "web"])["sandbox_id"].as_str().unwrap().to_owned();
    assert!(desk.json(&["sandbox", "view", &sandbox])["fence"].as_u64().unwrap() < JUMP);
    desk.done(&["backup", "stead.backup"]);
    desk.done(&["down"]);
    desk.done(&["restore", "stead.backup", "--replace"]);
    let fence = desk.json(&["sandbox", "view", &sandbox])["fence"].as_u64().unwrap();
    assert!(fence >= JUMP, "{fence}");
    desk.done(&["env", "reconcile", "web"]);
    assert_eq!(desk.json(&["env", "view", "web"])["status"], "ready", "its workspace is the one that it had");
    desk.done(&["down"]);
    desk.done(&["restore", "stead.backup", "--replace"]);
    assert!(desk.json(&["sandbox", "view", &sandbox])["fence"].as_u64().unwrap() >= JUMP);
    desk.done(&["down"]);
}

#[test]
fn a_restore_waits_for_nobody_and_replaces_nothing_unasked() {
    let desk = Desk::alone();
    desk.done(&["env", "create", "web"]);
    desk.done(&["backup", "stead.backup"]);
    assert_snapshot!(desk.run(&["restore", "stead.backup"]), @"
    exit code: 3
    --- stderr ---
    error: another server uses [HOME]/data (process [PID]) (store_in_use)
    hint: use that one (`stead status`), end it with `stead down`, or choose another --data-dir
    ");
    desk.done(&["down"]);
    assert_snapshot!(desk.run(&["restore", "stead.backup"]), @"
    exit code: 3
    --- stderr ---
    error: the store is not empty, and a backup replaces everything in it (conflict)
    hint: say --replace if that is what you want; back up what is there first
    ");
    desk.done(&["env", "delete", "web", "--yes"]);
    desk.done(&["down"]);
    assert_snapshot!(desk.run(&["restore", "stead.backup", "--replace"]), @"
    exit code: 0
    --- stderr ---
    restored [WORK]/stead.backup; workspaces made since that backup are kept without a record until `stead prune`, and what was deleted since has a record again but no workspace (`stead env reconcile` tells)
    hint: stead up
    ");
    desk.done(&["env", "view", "web"]);
    desk.done(&["down"]);
}

#[test]
fn a_backup_moves_a_store_to_postgres() {
    let desk = Desk::alone();
    let web = desk.json(&["env", "create", "web"]);
    desk.done(&["backup", "stead.backup"]);
    desk.done(&["down"]);
    let postgres = stead_testing::PrivatePostgres::start();
    let on_postgres = |arguments: &[&str]| {
        let output = desk.command(arguments).env("STEAD_DATABASE", postgres.url()).output().unwrap();
        assert!(output.status.success(), "{}", super::desk::told(&output));
        output.stdout
    };
    on_postgres(&["restore", "stead.backup"]);
    let status: serde_json::Value = serde_json::from_slice(&on_postgres(&["up", "--json"])).unwrap();
    assert_eq!(status["store"], "postgres");
    assert_eq!(desk.json(&["env", "view", "web"])["id"], web["id"]);
    on_postgres(&["backup", "second.backup"]);
    desk.done(&["down"]);
    assert!(desk.read("second.backup").contains(web["id"].as_str().unwrap()));
}

#[test]
fn a_workspace_that_a_restore_left_stays_until_it_is_pruned() {
    let desk = Desk::alone();
    desk.done(&["up"]);
    desk.done(&["backup", "stead.backup"]);
    let web = desk.json(&["env", "create", "web"]);
    let workspace = desk.data().join("sandboxes").join(web["sandbox_id"].as_str().unwrap()).join("workspace");
    std::fs::write(workspace.join("work"), "of hours").unwrap();
    desk.done(&["down"]);
    desk.done(&["restore", "stead.backup", "--replace"]);
    assert_eq!(desk.code(&["env", "view", "web"]), 4);
    assert_snapshot!(desk.run(&["prune", "--dry-run"]), @"
    exit code: 0
    --- stdout ---
    WHAT                                             WOULD GO
    audit records                                    0
    tombstones                                       0
    idempotency records                              0
    processes                                        0
    images that no environment names                 0
    workspaces that a restore left without a record  1
    ");
    assert_eq!(std::fs::read_to_string(workspace.join("work")).unwrap(), "of hours");
    assert_snapshot!(desk.run(&["prune"]), @"
    exit code: 2
    --- stderr ---
    error: this needs a yes, and there is no terminal to ask on: Remove workspaces that a restore left without a record (1), with all files in them? (usage)
    hint: say --yes to go ahead
    ");
    assert_eq!(std::fs::read_to_string(workspace.join("work")).unwrap(), "of hours");
    desk.done(&["prune", "--yes"]);
    assert!(!workspace.exists());
    desk.done(&["prune"]);
    desk.done(&["down"]);
}

#[test]
fn half_a_backup_is_never_restored() {
    let desk = Desk::alone();
    desk.done(&["env", "create", "web"]);
    desk.done(&["backup", "whole"]);
    desk.done(&["down"]);
    let whole = desk.read("whole");
    let lines: Vec<&str> = whole.lines().collect();
    desk.write("cut", &format!("{}\n", lines[..lines.len() - 1].join("\n")));
    desk.write("changed", &whole.replace("\"web\"", "\"wob\""));
    desk.write("newer", &whole.replacen("\"schema_version\":6", "\"schema_version\":999", 1));
    desk.write("other", "not a backup\n");
    assert_snapshot!(desk.run(&["restore", "cut", "--replace"]), @"
    exit code: 2
    --- stderr ---
    error: [WORK]/cut: the backup is cut off or was changed: its last line does not fit the ones before it (bad_request)
    hint: nothing was changed; use another backup
    ");
    assert_snapshot!(desk.run(&["restore", "changed", "--replace"]), @"
    exit code: 2
    --- stderr ---
    error: [WORK]/changed: the backup is cut off or was changed: its last line does not fit the ones before it (bad_request)
    hint: nothing was changed; use another backup
    ");
    assert_snapshot!(desk.run(&["restore", "newer", "--replace"]), @"
    exit code: 3
    --- stderr ---
    error: [WORK]/newer: the backup has schema version 999, this stead restores version 6 (conflict)
    hint: restore it with the stead that wrote it, then upgrade
    ");
    assert_snapshot!(desk.run(&["restore", "other", "--replace"]), @"
    exit code: 2
    --- stderr ---
    error: [WORK]/other: line 1 of the backup is not what a backup holds: expected ident at line 1 column 2 (bad_request)
    hint: nothing was changed; use another backup
    ");
    assert_snapshot!(desk.run(&["restore", "none"]), @"
    exit code: 1
    --- stderr ---
    error: [WORK]/none: No such file or directory (os error 2) (local_file)
    hint: check the path, and that there is space and permission
    ");
    desk.done(&["env", "view", "web"]);
    desk.done(&["down"]);
}

#[test]
fn a_backup_needs_a_store_and_a_new_file() {
    let desk = Desk::new();
    desk.write("taken", "precious");
    assert_snapshot!(desk.run(&["backup", "taken"]), @"
    exit code: 3
    --- stderr ---
    error: [WORK]/taken is there already (already_exists)
    hint: choose another file
    ");
    assert_eq!(desk.read("taken"), "precious");
    assert_snapshot!(desk.run(&["backup", "nowhere/stead.backup"]), @"
    exit code: 1
    --- stderr ---
    error: [WORK]/nowhere/stead.backup: No such file or directory (os error 2) (local_file)
    hint: check the path, and that there is space and permission
    ");
    assert_snapshot!(desk.run(&["backup", "elsewhere", "--url", "http://127.0.0.1:1"]), @"
    exit code: 2
    --- stderr ---
    error: this works on the files of a server, on its own machine (usage)
    hint: give --data-dir, or --profile local
    ");
    let without = Desk::alone();
    assert_snapshot!(without.run(&["backup", "stead.backup"]), @"
    exit code: 4
    --- stderr ---
    error: there is no store in [HOME]/data (not_found)
    hint: give --data-dir or --database of the server to back up
    ");
    assert!(!without.work().join("stead.backup").exists() && !without.data().exists());
}
