//! Tokens: where they are presented, what is said of stale ones, and where they are kept.

use insta::assert_snapshot;
use serde_json::Value;

use super::Office;
use crate::command_line::desk::told;

#[test]
fn a_token_is_presented_by_every_command_and_a_stale_one_changes_nothing() {
    let office = Office::new();
    let token = office.acquire(&["--ttl", "30m"]);
    let done = |arguments: &[&str]| {
        let output = office.presenting(&token, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        output.stdout
    };
    office.desk.write("here.txt", "from here\n");
    done(&["cp", "here.txt", "web:there.txt"]);
    done(&["files", "mkdir", "web", "made"]);
    done(&["files", "put", "web", "put.txt", "--file", "here.txt"]);
    done(&["checkpoint", "create", "web"]);
    assert_eq!(done(&["run", "--env", "web", "--", "cat", "there.txt", "put.txt"]), b"from here\nfrom here\n");
    let mut fed = office.desk.command(&["exec", "web", "--", "cat"]);
    fed.env("STEAD_LEASE", &token).stdin(std::fs::File::open(office.desk.work().join("here.txt")).unwrap());
    assert_eq!(fed.output().unwrap().stdout, b"from here\n");
    // Also out of a file, which comes before the variable.
    office.desk.write("web.lease", &format!("{token}\n"));
    let mut from_file = office.desk.command(&["--lease-token-file", "web.lease", "exec", "web", "--", "true"]);
    assert_eq!(from_file.env("STEAD_LEASE", "stl_none").output().unwrap().status.code(), Some(0));
    let shown = String::from_utf8(done(&["config", "show"])).unwrap();
    assert!(shown.contains("lease") && shown.contains("STEAD_LEASE") && !shown.contains(&token), "{shown}");
    // A process that is left behind is stopped with the release.
    let left = String::from_utf8(done(&["exec", "web", "--detach", "--", "sleep", "600"])).unwrap();
    done(&["lease", "release"]);
    let left: Value =
        office.desk.json(&["ps", "web", "--all"])["items"].as_array().unwrap().iter().find(|it| it["id"] == left.trim()).unwrap().clone();
    assert_eq!(left["exit"]["cause"], "fenced");
    // Whoever comes late is refused, whoever else they are.
    let stale = |arguments: &[&str]| told(&office.presenting(&token, arguments));
    assert!(
        stale(&["exec", "web", "--", "true"])
            .starts_with("exit code: 125\n--- stderr ---\nerror: the lease that was presented has ended: released at ")
    );
    assert_eq!(office.presenting(&token, &["files", "rm", "web", "there.txt"]).status.code(), Some(3));
    let error: Value = serde_json::from_slice(&office.presenting(&token, &["files", "rm", "web", "there.txt", "--json"]).stderr).unwrap();
    assert_eq!(error["error"]["code"], "fence_stale");
    assert_eq!(office.desk.done(&["files", "cat", "web", "there.txt"]), "from here\n");
    // It keeps nobody from the next one.
    assert_eq!(office.presenting(&token, &["lease", "run", "web", "--", "true"]).status.code(), Some(0));
}

#[test]
fn what_cannot_be_presented_keeps_nobody_from_looking() {
    let office = Office::new();
    assert_snapshot!(told(&office.presenting("stl_mistyped", &["files", "mkdir", "web", "made"])), @"
    exit code: 2
    --- stderr ---
    error: what STEAD_LEASE gives is no token of a lease: one begins with stl_ (usage)
    hint: set it to what `stead lease acquire` printed, or leave it out: unset STEAD_LEASE
    ");
    office.desk.write("export.lease", "export STEAD_LEASE=stl_mistyped\n");
    assert_snapshot!(office.desk.run(&["--lease-token-file", "export.lease", "files", "mkdir", "web", "made"]), @"
    exit code: 2
    --- stderr ---
    error: what --lease-token-file gives is no token of a lease: one begins with stl_ (usage)
    hint: name a file that `stead lease acquire -o FILE` wrote, which holds the token and nothing else, or leave --lease-token-file out
    ");
    assert_snapshot!(office.desk.run(&["--lease-token-file", "none", "files", "mkdir", "web", "made"]), @"
    exit code: 1
    --- stderr ---
    error: cannot read the token in none: No such file or directory (os error 2) (local_file)
    hint: name a file that `stead lease acquire -o FILE` wrote, or leave --lease-token-file out
    ");
    for looking in
        [&["env", "list"][..], &["env", "view", "web"], &["ps"], &["files", "ls", "web"], &["lease", "list"], &["audit"], &["status"]]
    {
        assert_eq!(office.presenting("stl_mistyped", looking).status.code(), Some(0), "{looking:?}");
        assert_eq!(office.desk.code(&[&["--lease-token-file", "none"], looking].concat()), 0, "{looking:?}");
    }
    let shown = told(&office.presenting("stl_mistyped", &["config", "show"]));
    assert!(
        shown.starts_with("exit code: 0\n") && shown.contains("STEAD_LEASE gives is no token") && shown.contains("\nproject "),
        "{shown}"
    );
}

#[test]
fn a_stale_token_is_named_wherever_it_is_in_the_way() {
    let office = Office::new();
    let old = office.acquire(&[]);
    assert_eq!(office.presenting(&old, &["lease", "release"]).status.code(), Some(0));
    // The next one is another, also where the old token is still set.
    let said = office.presenting(&old, &["lease", "acquire", "web", "--ttl", "30m"]);
    assert_snapshot!(told(&said), @"
    exit code: 0
    --- stdout ---
    export STEAD_LEASE=stl_[TOKEN]
    --- stderr ---
    web is yours for [LEFT]: lse_[ID], fence 2
    warning: STEAD_LEASE still holds the token of lse_[ID], another lease: set it anew, or unset STEAD_LEASE
    ");
    let new = String::from_utf8(said.stdout).unwrap().trim().strip_prefix("export STEAD_LEASE=").unwrap().to_owned();
    assert!(told(&office.presenting(&old, &["lease", "release"])).contains(" had ended before: released at "));
    assert_eq!(office.held()["status"], "active", "that was not this one");
    insta::allow_duplicates! {
    for verb in ["release", "renew"] {
        assert_snapshot!(told(&office.presenting(&old, &["lease", verb, "web"])), @"
        exit code: 3
        --- stderr ---
        error: the lease that was presented has ended: released at [SECOND] (fence_stale)
        hint: acquire the environment anew, or go on without that lease: unset STEAD_LEASE
        ");
    }
    }
    assert_snapshot!(told(&office.presenting(&old, &["exec", "web", "--", "true"])), @"
    exit code: 125
    --- stderr ---
    error: the lease that was presented has ended: released at [SECOND] (fence_stale)
    hint: acquire the environment anew, or go on without that lease: unset STEAD_LEASE
    ");
    office.desk.write("old.lease", &old);
    let said = office.desk.run(&["--lease-token-file", "old.lease", "files", "mkdir", "web", "made"]);
    assert!(said.ends_with("hint: acquire the environment anew, or go on without that lease: leave --lease-token-file out\n"), "{said}");
    // Whoever has it and does not say so is told how to, and whoever does is told what that is good for.
    assert_snapshot!(office.desk.run(&["lease", "renew", "web"]), @"
    exit code: 5
    --- stderr ---
    error: lease `lse_[ID]` is somebody else's (forbidden)
    hint: present its token: set STEAD_LEASE to it, or name the file that holds it with --lease-token-file; whoever acquired it was told it once
    ");
    assert_snapshot!(told(&office.presenting(&new, &["lease", "run", "web", "--", "true"])), @"
    exit code: 3
    --- stderr ---
    error: environment `web` is held by olivia, for [LEFT] more unless it is renewed (lease_held)
    hint: that is the lease which STEAD_LEASE presents: `stead exec web -- COMMAND` runs under it
    ");
    office.desk.write("new.lease", &new);
    let said = office.desk.run(&["--lease-token-file", "new.lease", "lease", "run", "web", "--", "true"]);
    assert!(said.ends_with("presents: `stead exec web --lease-token-file new.lease -- COMMAND` runs under it\n"), "{said}");
}

#[test]
fn what_is_refused_for_another_reason_is_told_that_reason() {
    let office = Office::new();
    let token = String::from_utf8(office.bob_runs(&["lease", "acquire", "web", "--quiet"]).stdout).unwrap();
    let mut release = office.bob(&["lease", "release", "--at-release", "destroy"]);
    assert_snapshot!(told(&release.env("STEAD_LEASE", token.trim()).output().unwrap()), @"
    exit code: 5
    --- stderr ---
    error: only an owner of the project, or who made the environment, may have it deleted (forbidden)
    hint: say `at_release: clean` to empty it, or ask an owner
    ");
}

#[test]
fn a_token_is_a_credential_where_there_is_no_other() {
    let office = Office::new();
    let token = office.acquire(&["--ttl", "30m"]);
    let elsewhere = |name: &str, arguments: &[&str]| {
        let mut command = office.desk.command(&[&["--url", &office.address], arguments].concat());
        command.env_remove("STEAD_DATA_DIR").env(name, &token).output().unwrap()
    };
    insta::allow_duplicates! {
    for name in ["STEAD_LEASE", "STEAD_API_KEY"] {
        assert_eq!(elsewhere(name, &["exec", "web", "--", "sh", "-c", "exit 4"]).status.code(), Some(4), "{name}");
        assert_eq!(elsewhere(name, &["env", "list", "--quiet"]).status.code(), Some(0), "{name}");
        assert_snapshot!(told(&elsewhere(name, &["lease", "renew"])), @"
        exit code: 0
        --- stderr ---
        lse_[ID] lasts [LEFT] more
        ");
    }
    }
    // Over the socket its user speaks, whose role is more than a token's.
    assert_eq!(office.presenting(&token, &["project", "members", "list"]).status.code(), Some(0));
    assert_snapshot!(told(&elsewhere("STEAD_LEASE", &["lease", "release"])), @"
    exit code: 0
    --- stderr ---
    released lse_[ID]
    ");
}

#[test]
fn a_token_in_a_file_is_readable_by_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let office = Office::new();
    assert_snapshot!(office.desk.run(&["lease", "acquire", "web", "-o", "web.lease"]), @"
    exit code: 0
    --- stderr ---
    web is yours for [LEFT]: lse_[ID], fence 1
    hint: present it with --lease-token-file web.lease
    ");
    assert_eq!(std::fs::metadata(office.desk.work().join("web.lease")).unwrap().permissions().mode() & 0o777, 0o600);
    office.desk.done(&["--lease-token-file", "web.lease", "lease", "release"]);
    assert_eq!(office.desk.code(&["lease", "acquire", "web", "-o", "web.lease"]), 3);
    assert_eq!(office.desk.done(&["lease", "list", "--quiet"]), "", "nothing is held that cannot be written down");
}
