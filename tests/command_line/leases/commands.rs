//! Commands under a lease, and those who wait for one: `stead lease run`, with what can come between.

use std::io::{BufRead, BufReader};

use insta::assert_snapshot;

use super::{Office, begin, interrupt};
use crate::command_line::desk::{Desk, squeezed, told};
use crate::command_line::run::until;

#[test]
fn a_command_under_a_lease_has_its_streams_its_code_and_lets_go() {
    let office = Office::new();
    let run = |arguments: &[&str]| office.desk.output(&[&["lease", "run", "web"], arguments].concat());
    assert_snapshot!(told(&run(&["--", "sh", "-c", "echo out; echo err >&2; exit 7"])), @"
    exit code: 7
    --- stdout ---
    out
    --- stderr ---
    err
    ");
    assert_eq!(office.desk.done(&["lease", "list", "--quiet"]), "", "also when the command fails");
    assert_eq!(run(&["--timeout", "300ms", "--", "sleep", "60"]).status.code(), Some(124));
    assert_eq!(run(&["--", "no-such-program"]).status.code(), Some(127));
    assert_eq!(
        office.desk.run_fed(&["lease", "run", "web", "-e", "A=b", "--", "sh", "-c", "cat; echo $A"], "fed\n"),
        "exit code: 0\n--- stdout ---\nfed\nb\n"
    );
    assert_eq!(office.desk.done(&["lease", "list", "--quiet"]), "");
    // What the command left running ends with the lease.
    assert_eq!(run(&["--", "sh", "-c", "sleep 600 > /dev/null 2>&1 &"]).status.code(), Some(0));
    assert_eq!(office.desk.json(&["top"])["items"].as_array().unwrap().iter().filter(|it| it["activity"]["background"] != 0).count(), 0);
    run(&["--at-release", "checkpoint", "--", "touch", "written"]);
    assert_eq!(office.desk.json(&["checkpoint", "list", "web"])["items"].as_array().unwrap().len(), 1);
    assert_eq!(office.desk.code(&["lease", "run", "nowhere", "--", "true"]), 125);
}

#[test]
fn whoever_waits_gets_it_in_order_and_sees_the_queue() {
    let office = Office::new();
    let token = office.acquire(&["--ttl", "30m", "--note", "first"]);
    let script = "cat order 2>/dev/null; echo bob >> order";
    let bob = begin(office.bob(&["lease", "run", "web", "--wait", "10m", "--note", "second", "--", "sh", "-c", script]));
    until("bob waits", || office.waiting() == 1);
    let script = "cat order; echo olivia >> order";
    let olivia = begin(office.desk.command(&["lease", "run", "web", "--wait", "10m", "--", "sh", "-c", script]));
    until("both wait", || office.waiting() == 2);
    let mut watched = begin(office.desk.command(&["lease", "watch", "web"]));
    let (mut seen, mut line) = (BufReader::new(watched.stdout.take().unwrap()), String::new());
    seen.read_line(&mut line).unwrap();
    let left =
        line.strip_prefix("web: olivia (\"first\"), active, ").and_then(|it| it.strip_suffix(" left, and bob (\"second\"), olivia wait\n"));
    assert!(left.is_some_and(|left| left.starts_with("29m") || left == "30m"), "{line}");
    assert_eq!(office.held()["waiting"][0]["note"], "second");
    assert_snapshot!(squeezed(&office.desk.run(&["lease", "list", "web"])), @"
    exit code: 0
    --- stdout ---
    ENVIRONMENT  HOLDER  STATUS  LEFT  FENCE  NOTE  WAITING  AGE  ID
    web  olivia  active  [LEFT]  1  first  2  [AGE]  lse_[ID]
    ");
    // Nobody gets past them, not even for a moment.
    assert_eq!(office.desk.code(&["lease", "run", "web", "--", "true"]), 3);
    assert_eq!(office.presenting(&token, &["lease", "release"]).status.code(), Some(0));
    let (bob, olivia) = (bob.wait_with_output().unwrap(), olivia.wait_with_output().unwrap());
    assert_snapshot!(told(&bob), @r#"
    exit code: 0
    --- stderr ---
    waiting for web, next in line; held by olivia ("first")
    "#);
    let said = told(&olivia);
    assert!(
        said.starts_with(
            "exit code: 0\n--- stdout ---\nbob\n--- stderr ---\nwaiting for web, 1 before you: bob; held by olivia (\"first\")\n"
        ),
        "{said}"
    );
    assert_eq!(office.desk.done(&["files", "cat", "web", "order"]), "bob\nolivia\n");
    interrupt(&watched);
    assert_eq!(watched.wait().unwrap().code(), Some(0));
}

#[test]
fn a_wait_ends_by_its_time_or_by_its_user_and_leaves_no_place_behind() {
    let office = Office::new();
    office.acquire(&["--ttl", "30m", "--note", "mine"]);
    assert_snapshot!(told(&office.bob_runs(&["lease", "acquire", "web", "--wait", "300ms"])), @r#"
    exit code: 3
    --- stderr ---
    waiting for web, next in line; held by olivia ("mine")
    error: environment `web` is still held by olivia ("mine") after 300ms (lease_held)
    hint: wait longer with --wait, see who holds it with `stead lease watch web --url http://127.0.0.1:[PORT] --key-file bob.key`, or have an owner end it with `stead lease break web --reason TEXT`
    "#);
    insta::allow_duplicates! {
    for command in [&["lease", "acquire", "web", "--wait", "10m"][..], &["lease", "run", "web", "--wait", "10m", "--", "true"]] {
        let waiting = begin(office.bob(command));
        until("bob waits", || office.waiting() == 1);
        interrupt(&waiting);
        assert_snapshot!(told(&waiting.wait_with_output().unwrap()), @r#"
        exit code: 130
        --- stderr ---
        waiting for web, next in line; held by olivia ("mine")
        gave up the place in the queue
        "#);
        assert_eq!(office.waiting(), 0);
    }
    }
}

#[test]
fn a_lease_that_is_lost_stops_the_command() {
    let office = Office::new();
    let mut running = begin(office.bob(&["lease", "run", "web", "--ttl", "3s", "--", "sh", "-c", "echo begun > begun; exec sleep 600"]));
    until("it runs", || office.desk.code(&["files", "stat", "web", "begun"]) == 0);
    let process = office.desk.done(&["ps", "web", "--quiet"]).trim().to_owned();
    // Renewed meanwhile, for longer than it was asked for.
    let fence = office.held()["fence"].clone();
    let until_renewed = || office.held()["expires_in_ms"].as_u64().unwrap();
    let first = until_renewed();
    until("it was renewed", || until_renewed() > first);
    assert!(running.try_wait().unwrap().is_none() && office.held()["fence"] == fence);
    let taken = office.desk.output(&["lease", "acquire", "web", "--preempt", "--note", "urgent", "--ttl", "30m"]);
    assert_eq!(taken.status.code(), Some(0), "{}", told(&taken));
    // It was stopped before anybody else was let in.
    assert_eq!(office.desk.done(&["ps", "web", "--quiet"]), "");
    assert_snapshot!(told(&running.wait_with_output().unwrap()), @r#"
    exit code: 125
    --- stderr ---
    error: the lease on environment `web` was lost: revoked at [SECOND] ("somebody took it"); olivia ("urgent") holds it now (lease_lost)
    hint: the command was stopped; `stead logs prc_[ID] --url http://127.0.0.1:[PORT] --key-file bob.key` shows what it printed, and then run it again
    "#);
    let all = office.desk.json(&["ps", "web", "--all"]);
    let ended = all["items"].as_array().unwrap().iter().find(|it| it["id"] == process.as_str()).unwrap();
    assert_eq!(ended["exit"]["cause"], "fenced");
}

#[test]
fn a_broken_lease_stops_the_command_also_where_nobody_wants_it() {
    let office = Office::new();
    let running =
        begin(office.bob(&["lease", "run", "web", "--note", "tests", "--", "sh", "-c", "trap '' TERM; echo begun > begun; sleep 600"]));
    until("it runs", || office.desk.code(&["files", "stat", "web", "begun"]) == 0);
    office.desk.done(&["lease", "break", "web", "--reason", "enough"]);
    let said = told(&running.wait_with_output().unwrap());
    assert!(said.starts_with("exit code: 125\n") && said.contains("revoked at ") && said.contains("(\"enough\")"), "{said}");
    until("nothing runs", || office.desk.done(&["ps", "web", "--quiet"]).is_empty());
    // What it was for and why it was ended stand beside each other, and the audit says why as well.
    assert_snapshot!(squeezed(&office.desk.run(&["lease", "list", "web", "--all"])), @"
    exit code: 0
    --- stdout ---
    ENVIRONMENT  HOLDER  STATUS  LEFT  FENCE  NOTE  REASON  AGE  ID
    web  bob  revoked  1  tests  enough  [AGE]  lse_[ID]
    ");
    let audited = squeezed(&office.desk.run(&["audit", "--action", "lease.end"]));
    assert!(audited.contains("FROM  REASON\n") && audited.lines().any(|line| line.ends_with("  enough")), "{audited}");
    // Who comes next with a command is told what one who acquires it is told.
    assert_snapshot!(office.desk.run(&["lease", "run", "web", "--", "true"]), @r#"
    exit code: 0
    --- stderr ---
    bob ("tests") held it before and did not let go (revoked): look at what is there
    "#);
}

#[test]
fn a_lease_that_reached_its_longest_time_says_so() {
    let office = Office::new();
    let said = office.desk.run(&["lease", "run", "web", "--ttl", "4s", "--max-lifetime", "5s", "--", "sleep", "600"]);
    let mut lines = said.lines().skip(2);
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("finish up: its max_lifetime ends it in ") && first.ends_with("s, whatever is renewed"), "{said}");
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    error: the lease on environment `web` was lost: its max_lifetime of 5s is over; nobody else holds it now (lease_lost)
    hint: the command was stopped; `stead logs prc_[ID]` shows what it printed, and then run it with a longer --max-lifetime, which `lease.max_lifetime` of the definition bounds
    ");
    assert!(said.starts_with("exit code: 125\n"), "{said}");
    // One that somebody waits for is asked to finish up for that.
    let token = office.acquire(&["--ttl", "30m"]);
    let waiting = begin(office.bob(&["lease", "acquire", "web", "--wait", "10m", "--note", "tests"]));
    until("bob waits", || office.waiting() == 1);
    assert_snapshot!(told(&office.presenting(&token, &["lease", "renew"])), @r#"
    exit code: 0
    --- stderr ---
    lse_[ID] lasts [LEFT] more
    finish up: bob ("tests") waits for it
    "#);
    interrupt(&waiting);
    assert_eq!(waiting.wait_with_output().unwrap().status.code(), Some(130));
}

#[test]
fn interrupting_the_command_is_the_commands_affair() {
    let office = Office::new();
    let running = begin(office.bob(&[
        "lease",
        "run",
        "web",
        "--",
        "sh",
        "-c",
        "trap 'exit 9' INT; echo begun > begun; while :; do sleep 0.05; done",
    ]));
    until("it runs", || office.desk.code(&["files", "stat", "web", "begun"]) == 0);
    interrupt(&running);
    assert_eq!(running.wait_with_output().unwrap().status.code(), Some(9));
    assert_eq!(office.desk.done(&["lease", "list", "--quiet"]), "");
}

#[test]
fn a_server_that_restarts_keeps_the_lease_and_the_order() {
    let desk = Desk::alone();
    desk.done(&["up"]);
    let holding = begin(desk.command(&[
        "lease",
        "run",
        "local-default",
        "--",
        "sh",
        "-c",
        "echo begun > begun; until [ -e go ]; do sleep 0.05; done; exit 6",
    ]));
    until("it runs", || desk.code(&["files", "stat", "local-default", "begun"]) == 0);
    let waiting = begin(desk.command(&["lease", "run", "local-default", "--wait", "10m", "--", "sh", "-c", "exit 5"]));
    let held = || desk.json(&["lease", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    let waits = || desk.done(&["http", "GET", &format!("environments/leases/{}", held())]).contains("\"waiting\"");
    until("the next one waits", waits);
    let before = held();
    desk.done(&["down"]);
    desk.done(&["up"]);
    assert_eq!(held(), before);
    assert!(waits());
    // Whoever only reads needs no lease, and whoever writes does: the workspace is the holder's.
    assert_eq!(desk.code(&["files", "mkdir", "local-default", "go"]), 3);
    let environment = desk.json(&["env", "view", "local-default"]);
    let workspace = desk.data().join("sandboxes").join(environment["sandbox_id"].as_str().unwrap()).join("workspace");
    std::fs::write(workspace.join("go"), "").unwrap();
    let ended = holding.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(6), "{}", told(&ended));
    let next = waiting.wait_with_output().unwrap();
    assert_eq!(next.status.code(), Some(5), "{}", told(&next));
    desk.done(&["down", "--all"]);
}

#[test]
fn a_command_whose_lease_is_handed_on_goes_on_without_its_first_holder() {
    let office = Office::new();
    let running = begin(office.bob(&["lease", "run", "web", "--ttl", "10s", "--", "sh", "-c", "echo begun | tee begun; exec sleep 600"]));
    until("it runs", || office.desk.code(&["files", "stat", "web", "begun"]) == 0);
    let process = office.desk.done(&["ps", "web", "--quiet"]).trim().to_owned();
    let lease = office.held()["id"].as_str().unwrap().to_owned();
    assert_snapshot!(office.desk.run(&["lease", "transfer", &lease, "--to", "olivia", "-o", "olivia.lease"]), @"
    exit code: 0
    --- stderr ---
    olivia holds it now: lse_[ID], fence 2
    hint: whoever has olivia.lease presents it with --lease-token-file
    ");
    // As it was written it is presented; it lasts no longer than what was handed on, and is kept here by hand.
    let next = || office.desk.code(&["--lease-token-file", "olivia.lease", "lease", "renew"]);
    assert_eq!(next(), 0);
    let mut running = running;
    until("its first holder has left", || {
        assert_eq!(next(), 0);
        running.try_wait().unwrap().is_some()
    });
    assert_snapshot!(told(&running.wait_with_output().unwrap()), @"
    exit code: 125
    --- stdout ---
    begun
    --- stderr ---
    error: the lease on environment `web` was handed on to olivia (lease_lost)
    hint: the command goes on under olivia's lease: `stead logs prc_[ID] --follow --url http://127.0.0.1:[PORT] --key-file bob.key` shows what it prints, and `stead attach prc_[ID] --url http://127.0.0.1:[PORT] --key-file bob.key` comes back to it
    ");
    assert_eq!(office.desk.done(&["ps", "web", "--quiet"]).trim(), process, "it goes on");
    assert_eq!(office.desk.code(&["--lease-token-file", "olivia.lease", "lease", "transfer", "--to", "bob", "-o", "olivia.lease"]), 3);
    office.desk.done(&["--lease-token-file", "olivia.lease", "lease", "release"]);
    assert_eq!(office.desk.done(&["ps", "web", "--quiet"]), "");
}
