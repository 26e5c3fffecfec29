//! `stead lease …`, and what it changes for every other command: two users with a key of their own on one environment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use insta::assert_snapshot;
use serde_json::Value;

use super::desk::{Desk, squeezed, told};
use super::run::until;

/// A server, its owner, and bob, who is a member with a key.
struct Office {
    desk: Desk,
    address: String,
}

impl Office {
    fn new() -> Self {
        let desk = Desk::new();
        desk.done(&["project", "members", "add", "bob"]);
        desk.done(&["key", "create", "bob", "--for", "bob", "-o", "bob.key"]);
        desk.done(&["env", "create", "web"]);
        let address = desk.server().address.clone();
        Self { desk, address }
    }

    fn bob(&self, arguments: &[&str]) -> Command {
        self.desk.command(&[&["--url", &self.address, "--key-file", "bob.key"], arguments].concat())
    }

    fn bob_runs(&self, arguments: &[&str]) -> Output {
        self.bob(arguments).output().unwrap()
    }

    /// Acquires for the owner; gives the token.
    fn acquire(&self, arguments: &[&str]) -> String {
        let said = self.desk.done(&[&["lease", "acquire", "web"], arguments].concat());
        said.trim().strip_prefix("export STEAD_LEASE=").unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    fn presenting(&self, token: &str, arguments: &[&str]) -> Output {
        self.desk.command(arguments).env("STEAD_LEASE", token).output().unwrap()
    }

    /// The one lease that is held.
    fn held(&self) -> Value {
        let listed = self.desk.json(&["lease", "list", "web"]);
        let [held] = listed["items"].as_array().unwrap().as_slice() else { panic!("{listed}") };
        // Alone it says who waits.
        let id = held["id"].as_str().unwrap();
        serde_json::from_str(&self.desk.done(&["http", "GET", &format!("environments/leases/{id}")])).unwrap()
    }

    fn waiting(&self) -> usize {
        self.held()["waiting"].as_array().map_or(0, Vec::len)
    }
}

fn begin(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

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
