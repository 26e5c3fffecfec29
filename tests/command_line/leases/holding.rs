//! Acquired, shown, handed on and let go of.

use std::process::Command;

use insta::assert_snapshot;
use serde_json::Value;

use super::Office;
use crate::command_line::desk::{squeezed, told};
use crate::command_line::run::until;

#[test]
fn a_lease_is_acquired_for_a_shell_and_let_go_of() {
    let office = Office::new();
    let desk = &office.desk;
    let said = desk.run(&["lease", "acquire", "web", "--ttl", "30m", "--note", "release 1.2"]);
    assert_snapshot!(said, @"
    exit code: 0
    --- stdout ---
    export STEAD_LEASE=stl_[TOKEN]
    --- stderr ---
    web is yours for [LEFT]: lse_[ID], fence 1
    ");
    let line = said.lines().find(|line| line.starts_with("export ")).unwrap();
    // As a shell takes it.
    let script = format!("{line}; exec \"$0\" lease renew");
    let mut shell = Command::new("sh");
    let renew = desk.command(&[]);
    shell.args(["-c", &script]).arg(renew.get_program()).current_dir(desk.work());
    for (name, value) in renew.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    assert_snapshot!(told(&shell.output().unwrap()), @"
    exit code: 0
    --- stderr ---
    lse_[ID] lasts [LEFT] more
    ");
    assert_snapshot!(squeezed(&desk.run(&["lease", "list", "web"])), @"
    exit code: 0
    --- stdout ---
    ENVIRONMENT  HOLDER  STATUS  LEFT  FENCE  NOTE  AGE  ID
    web  olivia  active  [LEFT]  1  release 1.2  [AGE]  lse_[ID]
    ");
    let token = line.strip_prefix("export STEAD_LEASE=").unwrap();
    assert_snapshot!(told(&office.presenting(token, &["lease", "release"])), @"
    exit code: 0
    --- stderr ---
    released lse_[ID]
    ");
    // Once more is no mistake, but nothing is let go of by it; and nobody holds anything.
    assert_snapshot!(told(&office.presenting(token, &["lease", "release"])), @"
    exit code: 0
    --- stderr ---
    lse_[ID] had ended before: released at [SECOND]
    hint: STEAD_LEASE presents a lease that has ended, and nothing else was let go of: unset STEAD_LEASE
    ");
    assert_snapshot!(desk.run(&["lease", "list"]), @"
    exit code: 0
    --- stderr ---
    nobody holds anything; --all shows who did
    ");
    assert_snapshot!(desk.run(&["lease", "release", "web"]), @"
    exit code: 4
    --- stderr ---
    error: nobody holds environment `web` (not_found)
    hint: `stead lease list web --all` shows who did
    ");
    assert_eq!(desk.json(&["lease", "list", "web", "--all"])["items"][0]["status"], "released");
    assert_snapshot!(desk.run(&["lease", "renew"]), @"
    exit code: 2
    --- stderr ---
    error: it is not said which lease is meant (usage)
    hint: name it or its environment, or present its token with STEAD_LEASE or --lease-token-file; `stead lease list` shows those that are held
    ");
}

#[test]
fn somebody_else_is_told_who_holds_it_and_what_to_do() {
    let office = Office::new();
    let token = office.acquire(&["--ttl", "30m", "--note", "release 1.2"]);
    insta::allow_duplicates! {
    for command in [&["lease", "acquire", "web"][..], &["lease", "run", "web", "--", "true"]] {
        assert_snapshot!(told(&office.bob_runs(command)), @r#"
        exit code: 3
        --- stderr ---
        error: environment `web` is held by olivia ("release 1.2"), for [LEFT] more unless it is renewed (lease_held)
        hint: wait for it with `stead lease run web --wait 5m --url http://127.0.0.1:[PORT] --key-file bob.key -- COMMAND`, see who holds it with `stead lease list web --url http://127.0.0.1:[PORT] --key-file bob.key`, or have an owner end it with `stead lease break web --reason TEXT`; if it is yours, present its token: STEAD_LEASE, --lease-token-file, or the header `Stead-Lease`
        "#);
    }
    }
    // Also another terminal with the same key: the lease is of whoever presents it.
    assert_eq!(office.desk.code(&["exec", "web", "--", "true"]), 125);
    assert_eq!(office.desk.error(&["files", "mkdir", "web", "made"])["code"], "lease_held");
    assert_eq!(office.desk.code(&["files", "mkdir", "web", "made"]), 3);
    assert_eq!(office.presenting(&token, &["exec", "web", "--", "sh", "-c", "exit 4"]).status.code(), Some(4));
    let shown = squeezed(&office.desk.run(&["env", "list"]));
    assert!(shown.contains("web  ready  olivia  29m") || shown.contains("web  ready  olivia  30m  local"), "{shown}");
    let shown = office.desk.run(&["env", "view", "web"]);
    assert!(
        shown.contains("held by        olivia (\"release 1.2\")\n")
            && (shown.contains("\nleft           29m") || shown.contains("\nleft           30m")),
        "{shown}"
    );
    // Only an owner ends it, and says why.
    assert_eq!(office.bob_runs(&["lease", "break", "web", "--reason", "mine"]).status.code(), Some(5));
    assert_eq!(office.bob_runs(&["lease", "release", "web"]).status.code(), Some(5));
    assert_eq!(office.bob_runs(&["lease", "acquire", "web", "--preempt"]).status.code(), Some(5));
    assert_eq!(office.desk.code(&["lease", "break", "web"]), 2);
    assert_snapshot!(office.desk.run(&["lease", "break", "web", "--reason", "gone home"]), @r#"
    exit code: 0
    --- stderr ---
    ended lse_[ID] of olivia ("release 1.2"); what ran under it is stopped before anybody else is let in
    "#);
    // Who comes next is told that nobody let go.
    assert_snapshot!(told(&office.bob_runs(&["lease", "acquire", "web"])), @r#"
    exit code: 0
    --- stdout ---
    export STEAD_LEASE=stl_[TOKEN]
    --- stderr ---
    web is yours for [LEFT]: lse_[ID], fence 2
    olivia ("release 1.2") held it before and did not let go (revoked): look at what is there
    "#);
}

#[test]
fn what_a_lease_cannot_be_is_said_in_the_words_of_the_help() {
    let office = Office::new();
    for (arguments, said) in [
        (["--ttl", "25h"], "error: invalid value '25h' for '--ttl <DURATION>': it must be from 1s to 24h; what takes longer renews it\n"),
        (["--max-lifetime", "0s"], "error: invalid value '0s' for '--max-lifetime <DURATION>': it must be from 1s to 30d\n"),
        (["--wait", "31d"], "error: invalid value '31d' for '--wait <DURATION>': it must be at most 30d\n"),
    ] {
        let told = office.desk.run(&[&["lease", "acquire", "web"], &arguments[..]].concat());
        assert!(told.starts_with(&format!("exit code: 2\n--- stderr ---\n{said}")), "{told}");
    }
    assert_snapshot!(office.desk.run(&["lease", "acquire", "web", "-o", "none/web.lease"]), @"
    exit code: 1
    --- stderr ---
    error: there is no directory none (local_file)
    hint: make it first: mkdir -p none
    ");
    assert_eq!(office.desk.done(&["lease", "list", "--quiet"]), "", "nothing is held that cannot be written down");
}

#[test]
fn a_plain_command_holds_it_only_while_it_runs() {
    let office = Office::new();
    let held = || office.desk.json(&["env", "view", "web"])["held_by"].clone();
    let process = office.desk.done(&["exec", "web", "--detach", "--", "sleep", "600"]).trim().to_owned();
    assert_eq!((&held()["implicit"], held().get("expires_in_ms")), (&true.into(), None));
    let shown = squeezed(&office.desk.run(&["env", "list"]));
    assert!(shown.contains("web  ready  olivia  while it runs  local"), "{shown}");
    let listed = squeezed(&office.desk.run(&["lease", "list", "web"]));
    assert!(listed.contains("web  olivia  active, implicit  while it runs  1  "), "{listed}");
    assert_eq!(office.bob_runs(&["lease", "run", "web", "--", "true"]).status.code(), Some(3));
    office.desk.done(&["kill", &process, "KILL"]);
    until("it is over", || office.desk.done(&["ps", "web", "--quiet"]).is_empty());
    // It lingers and keeps nobody out, so nobody is shown to hold it.
    until("its end is written down", || held()["expires_in_ms"].is_u64());
    let shown = squeezed(&office.desk.run(&["env", "list"]));
    assert!(shown.contains("web  ready  local"), "{shown}");
    let listed = squeezed(&office.desk.run(&["lease", "list", "web"]));
    assert!(listed.contains("web  olivia  active, implicit  idle  1  "), "{listed}");
    assert_eq!(office.bob_runs(&["lease", "run", "web", "--", "true"]).status.code(), Some(0));
}

#[test]
fn a_lease_is_handed_on_and_what_runs_goes_on() {
    let office = Office::new();
    let token = office.acquire(&["--ttl", "30m", "--note", "mine"]);
    let process = String::from_utf8(office.presenting(&token, &["exec", "web", "--detach", "--", "sleep", "600"]).stdout).unwrap();
    let handed = office.presenting(&token, &["lease", "transfer", "--to", "bob", "--note", "over to you"]);
    assert_snapshot!(told(&handed), @"
    exit code: 0
    --- stdout ---
    export STEAD_LEASE=stl_[TOKEN]
    --- stderr ---
    bob holds it now: lse_[ID], fence 2
    ");
    assert_eq!(office.desk.done(&["ps", "web", "--quiet"]), process, "it goes on");
    let next = String::from_utf8(handed.stdout).unwrap().trim().strip_prefix("export STEAD_LEASE=").unwrap().to_owned();
    let held = office.held();
    assert_eq!((&held["holder"], &held["note"]), (&"bob".into(), &"over to you".into()));
    assert_eq!(office.presenting(&token, &["lease", "renew"]).status.code(), Some(3), "the old one has ended");
    assert_eq!(office.bob(&["exec", "web", "--", "true"]).env("STEAD_LEASE", &next).output().unwrap().status.code(), Some(0));
    assert_eq!(office.bob(&["lease", "transfer", "--to", "nobody"]).env("STEAD_LEASE", &next).output().unwrap().status.code(), Some(2));
    // By principal nothing has to be presented.
    let back =
        office.bob(&["lease", "transfer", "web", "--to", "olivia", "--bind", "principal"]).env("STEAD_LEASE", &next).output().unwrap();
    assert!(back.status.success() && back.stdout.is_empty(), "{}", told(&back));
    assert_eq!(office.desk.code(&["exec", "web", "--", "true"]), 0);
    assert_eq!(office.bob_runs(&["exec", "web", "--", "true"]).status.code(), Some(125));
    office.desk.done(&["lease", "release", "web"]);
    assert_eq!(office.desk.done(&["ps", "web", "--quiet"]), "");
}

#[test]
fn a_lease_says_what_it_promises() {
    let office = Office::new();
    assert_snapshot!(office.desk.run(&["lease", "acquire", "web", "--shared", "--ttl", "30m"]), @"
    exit code: 0
    --- stdout ---
    export STEAD_LEASE=stl_[TOKEN]
    --- stderr ---
    web is yours to read for [LEFT], shared with whoever else reads; nobody changes it meanwhile: lse_[ID]
    ");
    office.desk.write("open.json", r#"{ "lease": { "policy": "open" } }"#);
    office.desk.done(&["env", "create", "everybodys", "--spec", "open.json"]);
    assert_snapshot!(office.desk.run(&["lease", "acquire", "everybodys", "--ttl", "30m"]), @"
    exit code: 0
    --- stdout ---
    export STEAD_LEASE=stl_[TOKEN]
    --- stderr ---
    everybodys is open to everybody: others may change it meanwhile, and lse_[ID] keeps nobody out; it lasts [LEFT]
    ");
}

#[test]
fn readers_keep_writers_out_and_change_nothing() {
    let office = Office::new();
    let token = office.acquire(&["--shared", "--ttl", "30m"]);
    let other = office.bob_runs(&["lease", "acquire", "web", "--shared", "--quiet"]);
    let other = String::from_utf8(other.stdout).unwrap().trim().to_owned();
    assert!(other.starts_with("stl_"));
    let refused: Value = serde_json::from_slice(&office.presenting(&token, &["files", "mkdir", "web", "x", "--json"]).stderr).unwrap();
    assert_eq!(refused["error"]["code"], "lease_read_only");
    assert_eq!(office.desk.code(&["lease", "run", "web", "--", "true"]), 3);
    // Of several the environment means the one that is presented.
    assert_snapshot!(office.desk.run(&["lease", "renew", "web"]), @"
    exit code: 2
    --- stderr ---
    error: several hold environment `web`: lse_[ID], lse_[ID] (ambiguous)
    hint: name the lease by its id
    ");
    assert_eq!(office.presenting(&token, &["lease", "release", "web"]).status.code(), Some(0));
    assert_eq!(office.bob(&["lease", "release", "web"]).env("STEAD_LEASE", &other).output().unwrap().status.code(), Some(0));
    assert_eq!(office.desk.code(&["lease", "run", "web", "--", "true"]), 0);
}

#[test]
fn json_is_the_apis_own_shape() {
    let office = Office::new();
    let desk = &office.desk;
    let acquired = desk.json(&["lease", "acquire", "web", "--ttl", "30m", "--priority=-3", "--at-release", "keep"]);
    let token = acquired["lease"]["token"].as_str().unwrap();
    assert_eq!((&acquired["environment"]["name"], &acquired["lease"]["bind"]), (&"web".into(), &"token".into()));
    let of = |arguments: &[&str]| -> Value {
        serde_json::from_slice(&office.presenting(token, &[arguments, &["--json"]].concat()).stdout).unwrap()
    };
    assert_eq!(of(&["lease", "renew"])["directive"], "continue");
    assert_eq!(of(&["lease", "list"])["items"][0]["id"], acquired["lease"]["id"]);
    assert!(of(&["lease", "list"])["items"][0].get("token").is_none(), "told once");
    assert_eq!(desk.json(&["env", "view", "web"])["held_by"]["holder"], "olivia");
    let handed = of(&["lease", "transfer", "--to", "bob"]);
    assert_eq!(handed["lease"]["holder"], "bob");
    assert_eq!(desk.json(&["lease", "break", "web", "--reason", "enough"])["status"], "revoked");
    assert_eq!(of(&["lease", "release"])["status"], "released", "it was handed on before");
    let refused = desk.error(&["lease", "renew", acquired["lease"]["id"].as_str().unwrap()]);
    assert_eq!(refused["code"], "forbidden");
    let gone: Value = serde_json::from_slice(&office.presenting(token, &["lease", "renew", "--json"]).stderr).unwrap();
    assert_eq!(gone["error"]["code"], "lease_lost");
    assert_eq!(desk.json(&["lease", "list", "--all", "--limit", "1"])["items"].as_array().unwrap().len(), 1);
}
