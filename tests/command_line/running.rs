//! What runs, what it printed, and how it is stopped.

use super::desk::{Desk, squeezed};
use super::run::until;

fn started(desk: &Desk, script: &str) -> String {
    desk.done(&["exec", "local-default", "--detach", "--", "sh", "-c", script]).trim().to_owned()
}

#[test]
fn processes_are_listed_read_and_signalled() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.run(&["ps"]), @r"
    exit code: 0
    --- stderr ---
    nothing runs now; --all shows what did
    ");
    let id = started(&desk, "echo one; echo two >&2; exec sleep 60");
    insta::assert_snapshot!(squeezed(&desk.run(&["ps"])), @r"
    exit code: 0
    --- stdout ---
    ID  ENVIRONMENT  STATUS  CPU  AGE  COMMAND
    prc_[ID]  local-default  running  [AGE]  sh -c 'echo one; echo two >&2; exec sleep 60'
    ");
    until("both lines are there", || desk.done(&["logs", &id]).len() == 8);
    assert_eq!(desk.done(&["logs", &id, "--stream", "stderr"]), "two\n");
    assert_eq!(desk.done(&["logs", &id, "--stream", "stdout"]), "one\n");
    let both = desk.done(&["logs", &id]);
    assert_eq!(desk.done(&["logs", &id, "--since", "4"]), both[4..]);
    // The beginning of an id is enough where it fits only one.
    assert_eq!(desk.done(&["logs", &id[..34]]), both);
    insta::assert_snapshot!(desk.run(&["kill", &id]), @r"
    exit code: 0
    --- stderr ---
    sent TERM to prc_[ID]
    ");
    assert_eq!(desk.done(&["logs", "-f", &id]), both, "it ends when the process does");
    assert_eq!(desk.done(&["ps", "--quiet"]), "");
    let listed = desk.json(&["ps", "local-default", "--all"]);
    assert_eq!((&listed["items"][0]["exit"]["cause"], &listed["items"][0]["id"]), (&"signaled".into(), &id.as_str().into()));
    assert_eq!(desk.code(&["attach", &id]), 143);
    assert_eq!(desk.code(&["kill", &id]), 3);
    assert_eq!(desk.code(&["logs", "prc_ffffff"]), 4);
    assert_eq!(desk.code(&["kill", &id, "NONSENSE"]), 2);
}

#[test]
fn attaching_goes_on_with_stdin_where_it_was() {
    let desk = Desk::new();
    let new = r#"{"argv": ["sh", "-c", "while read -r line; do echo got $line; done; exit 7"], "stdin": "open"}"#;
    let environment = desk.json(&["env", "view", "local-default"])["id"].as_str().unwrap().to_owned();
    let started: serde_json::Value =
        serde_json::from_str(&desk.done(&["http", "POST", &format!("environments/{environment}/processes"), "-d", new])).unwrap();
    let id = started["id"].as_str().unwrap();
    desk.done(&[
        "http",
        "POST",
        &format!("environments/{environment}/processes/{id}/stdin?offset=0"),
        "-d",
        "first\n",
        "-H",
        "Content-Type: application/octet-stream",
    ]);
    until("the first line is read", || desk.done(&["logs", id]) == "got first\n");
    insta::assert_snapshot!(desk.run_fed(&["attach", id], "second\n"), @r"
    exit code: 7
    --- stdout ---
    got second
    ");
}

#[test]
fn environments_wake_sleep_and_stop() {
    let desk = Desk::new();
    let awake = |desk: &Desk| desk.json(&["top"])["items"][0]["activity"]["awake"].as_bool().unwrap();
    assert!(!awake(&desk));
    insta::assert_snapshot!(desk.run(&["env", "wake", "local-default"]), @r"
    exit code: 0
    --- stderr ---
    environment local-default is awake
    ");
    assert!(awake(&desk));
    let id = started(&desk, "sleep 60");
    insta::assert_snapshot!(desk.run(&["env", "sleep", "local-default"]), @r"
    exit code: 3
    --- stderr ---
    error: a process runs in environment `local-default` (conflict)
    hint: wait for them, or end them with `force: true` (`stead env sleep --force`); `stead ps` shows them
    ");
    let seen = desk.json(&["top"])["items"][0].clone();
    assert_eq!(seen["processes"][0]["id"], id.as_str());
    let screen = desk.done(&["top", "--once"]);
    assert!(screen.contains("local-default") && screen.contains("awake") && screen.contains("sleep 60"), "{screen}");
    desk.done(&["env", "stop", "local-default"]);
    assert!(!awake(&desk));
    assert_eq!(desk.done(&["ps", "--quiet"]), "");
    let posture = desk.done(&["env", "posture", "local-default"]);
    assert!(posture.starts_with("POSTURE") && posture.contains("sandbox.workspace_access  rw         enforced"), "{posture}");
}

#[test]
fn what_a_command_left_behind_is_told_of_and_in_the_way() {
    let desk = Desk::new();
    desk.done(&["exec", "local-default", "--", "sh", "-c", "sleep 60 > /dev/null 2>&1 &"]);
    insta::assert_snapshot!(desk.run(&["env", "sleep", "local-default"]), @r"
    exit code: 3
    --- stderr ---
    error: a program runs that a command left behind in environment `local-default` (conflict)
    hint: wait for them, or end them with `force: true` (`stead env sleep --force`); `stead ps` shows them
    ");
    insta::assert_snapshot!(desk.run(&["ps"]), @r"
    exit code: 0
    --- stderr ---
    nothing runs now; --all shows what did
    1 program runs in local-default that commands left behind; `stead env stop local-default` ends everything in it
    ");
    desk.done(&["env", "stop", "local-default"]);
    desk.done(&["env", "sleep", "local-default"]);
    assert!(!desk.run(&["ps"]).contains("left behind"));
}

#[test]
fn what_is_awake_sees_the_same_after_a_restart() {
    let desk = Desk::alone();
    desk.done(&["up"]);
    let id = started(&desk, "while sleep 0.1; do ls /etc | wc -l; whoami; done");
    let seen = || desk.done(&["exec", "local-default", "--", "sh", "-c", "ls /etc | wc -l; whoami"]);
    let before = seen();
    for _ in 0..2 {
        desk.done(&["down"]);
        desk.done(&["up"]);
        // What all places share of the root is made ready behind the start.
        let lines = desk.done(&["logs", &id]).len();
        until("it has gone on", || desk.done(&["logs", &id]).len() > lines + 100);
        assert_eq!(seen(), before);
    }
    let mut said: Vec<String> = desk.done(&["logs", &id]).lines().map(str::to_owned).collect();
    said.sort();
    said.dedup();
    assert_eq!(said.len(), 2, "it never saw anything else: {said:?}");
    desk.done(&["down", "--all"]);
}

#[test]
fn a_server_that_stops_leaves_commands_and_lists_them() {
    let desk = Desk::alone();
    desk.done(&["up"]);
    let id = started(&desk, "sleep 60");
    let said = desk.run(&["down"]);
    assert!(said.contains("these go on") && said.contains(&id), "{said}");
    desk.done(&["up"]);
    assert_eq!(desk.json(&["status"])["running"][0]["id"], id.as_str());
    let said = desk.run(&["status"]);
    assert!(said.contains("1 command") && said.contains(&id), "{said}");
    assert_eq!(desk.done(&["ps", "--quiet"]).trim(), id, "the next server finds it");
    let said = desk.run(&["down", "--all"]);
    assert!(said.contains("has stopped") && !said.contains(&id), "{said}");
    let ended = desk.json(&["ps", "--all"]);
    assert_eq!(ended["items"][0]["exit"]["cause"], "signaled");
}
