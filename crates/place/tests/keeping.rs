//! A real spawner, real stewards, real places: what runs, what it said, and what is left afterwards.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::{ExitCause, OutputStream, TerminalSize};
use stead_place::blueprint::{Blueprint, WorkspaceKind};
use stead_place::client::Trouble;
use stead_place::log::Piece;
use stead_place::protocol::{Answer, Call, PROTOCOL, Refusal, Start};

mod house;

use house::{House, stewards, until_over};

#[tokio::test]
async fn a_command_runs_and_what_it_said_stays() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let start = house.start("echo out; echo err >&2; pwd; echo made > file; exit 3");
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    let over = house.until_over(environment, start.process).await;
    let exit = over.exit.unwrap();
    assert_eq!((exit.cause, exit.code), (ExitCause::Exited, Some(3)));
    assert_eq!(house.text(environment, start.process, None).await.len(), 8 + 11);
    assert_eq!(house.text(environment, start.process, Some(OutputStream::Stdout)).await, "out\n/workspace\n");
    assert_eq!(house.text(environment, start.process, Some(OutputStream::Stderr)).await, "err\n");
    assert_eq!(std::fs::read_to_string(house.data.join("workspace/file")).unwrap(), "made\n");
    // The same again is the same process.
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    assert_eq!(house.text(environment, start.process, Some(OutputStream::Stdout)).await, "out\n/workspace\n");
    house.stewards.sleep(environment, false).await.unwrap();
    assert!(!house.blueprint(environment).run.exists());
    assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().code, Some(3));
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().code, Some(3));
    house.stewards.sleep(environment, false).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_started_is_told_apart() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let mut start = house.start("");
    start.argv = vec!["no-such-program".to_owned()];
    let refused = |outcome: Result<(), Trouble>| match outcome {
        Err(Trouble::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(house.stewards.start(&blueprint, &start).await), Refusal::Program { missing: true, .. }));
    assert_eq!(house.stewards.progress(environment, start.process).await.unwrap(), None);
    std::fs::write(house.data.join("workspace/text"), "no program").unwrap();
    start.argv = vec!["./text".to_owned()];
    assert!(matches!(refused(house.stewards.start(&blueprint, &start).await), Refusal::Program { missing: false, .. }));
    start.argv = vec!["true".to_owned()];
    start.cwd = Some("nowhere".to_owned());
    assert_eq!(refused(house.stewards.start(&blueprint, &start).await), Refusal::Directory);
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn a_second_server_finds_everything() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let start = house.start("echo one; read line; echo got $line");
    let start = Start { stdin_open: true, ..start };
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    house.stewards.let_go();
    let second = stewards(&house.data);
    let seen = second.progress(environment, start.process).await.unwrap().unwrap();
    assert_eq!(seen.exit, None);
    let stdin = |offset, bytes: &'static [u8]| {
        second.call(environment, Call::Stdin { process: start.process, warrant: None, offset, end: false }, bytes)
    };
    assert!(matches!(stdin(0, b"wo").await.unwrap(), Answer::Written { offset: 2 }));
    assert!(matches!(stdin(0, b"word\n").await.unwrap(), Answer::Written { offset: 5 }));
    assert_eq!(until_over(&second, environment, start.process).await.exit.unwrap().code, Some(0));
    assert_eq!(house.text(environment, start.process, None).await, "one\ngot word\n");
    second.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn a_child_left_behind_does_not_hold_the_exit() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let start = house.start("(sleep 0.4; echo later) & echo now");
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    let mut seen = house.until_over(environment, start.process).await;
    assert_eq!((seen.end, seen.closed), (4, false));
    while !seen.closed {
        seen = house.stewards.further(environment, start.process, &seen).await.unwrap().unwrap();
    }
    assert_eq!(house.text(environment, start.process, None).await, "now\nlater\n");
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn deadlines_signals_and_sleep_end_a_process() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    let timed = Start { timeout_milliseconds: Some(200), ..house.start("sleep 60") };
    house.stewards.start(&blueprint, &timed).await.unwrap();
    let exit = house.until_over(environment, timed.process).await.exit.unwrap();
    assert_eq!((exit.cause, exit.signal), (ExitCause::Timeout, Some(15)));
    let signaled = house.start("trap 'echo caught; exit 7' USR1; echo up; while :; do sleep 0.05; done");
    house.stewards.start(&blueprint, &signaled).await.unwrap();
    let mut seen = house.stewards.progress(environment, signaled.process).await.unwrap().unwrap();
    while seen.end == 0 {
        seen = house.stewards.further(environment, signaled.process, &seen).await.unwrap().unwrap();
    }
    house.stewards.call(environment, Call::Signal { process: signaled.process, warrant: None, signal: 10 }, &[]).await.unwrap();
    assert_eq!(house.until_over(environment, signaled.process).await.exit.unwrap().code, Some(7));
    let stubborn = house.start("trap '' TERM; sleep 60");
    house.stewards.start(&blueprint, &stubborn).await.unwrap();
    house.stewards.sleep(environment, true).await.unwrap();
    let exit = house.until_over(environment, stubborn.process).await.exit.unwrap();
    assert_eq!((exit.cause, exit.signal), (ExitCause::Signaled, Some(9)));
}

#[tokio::test]
async fn a_killed_steward_takes_all_with_it_and_the_rest_is_told() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let start = house.start("touch alive; echo said; sleep 60; touch too-late");
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    let connection = house.stewards.find(environment).await.unwrap().unwrap();
    let Answer::Hello { pid, .. } = connection.call(Call::Hello { protocol: PROTOCOL }, &[]).await.unwrap() else { panic!("no hello") };
    let mut seen = house.stewards.progress(environment, start.process).await.unwrap().unwrap();
    while seen.end == 0 {
        seen = house.stewards.further(environment, start.process, &seen).await.unwrap().unwrap();
    }
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(), rustix::process::Signal::KILL).unwrap();
    let over = house.until_over(environment, start.process).await;
    assert_eq!(over.exit.unwrap().cause, ExitCause::Lost);
    assert_eq!(house.text(environment, start.process, None).await, "said\n");
    // And the place can be made anew at once.
    let again = house.start("ls");
    house.stewards.start(&house.blueprint(environment), &again).await.unwrap();
    assert_eq!(house.until_over(environment, again.process).await.exit.unwrap().code, Some(0));
    assert_eq!(house.text(environment, again.process, None).await, "alive\n");
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn when_its_time_is_up_so_is_that_of_what_it_left() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = house.blueprint(environment);
    // Of another command: it stays.
    let other = house.start("setsid sleep 1000 >/dev/null 2>&1 & echo other");
    house.stewards.start(&blueprint, &other).await.unwrap();
    house.until_over(environment, other.process).await;
    let script = "(trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1001 & sleep 1002' >/dev/null 2>&1 &) ; sleep 1003";
    let timed = Start { timeout_milliseconds: Some(300), ..house.start(script) };
    house.stewards.start(&blueprint, &timed).await.unwrap();
    assert_eq!(house.until_over(environment, timed.process).await.exit.unwrap().cause, ExitCause::Timeout);
    let mut left = String::new();
    for _ in 0..100 {
        let look = house.start("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 10[0-9][0-9]'");
        house.stewards.start(&blueprint, &look).await.unwrap();
        house.until_over(environment, look.process).await;
        left = house.text(environment, look.process, None).await;
        if left == "sleep 1000\n" {
            break;
        }
    }
    assert_eq!(left, "sleep 1000\n");
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn a_terminal_is_one() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let terminal = Some(TerminalSize { rows: 30, cols: 100 });
    let start = Start { terminal, ..house.start("test -t 0 && test -t 1 && stty size; read line; stty size; echo $line") };
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    let mut seen = house.stewards.progress(environment, start.process).await.unwrap().unwrap();
    while seen.end == 0 {
        seen = house.stewards.further(environment, start.process, &seen).await.unwrap().unwrap();
    }
    let size = TerminalSize { rows: 40, cols: 90 };
    house.stewards.call(environment, Call::Resize { process: start.process, warrant: None, size }, &[]).await.unwrap();
    house
        .stewards
        .call(environment, Call::Stdin { process: start.process, warrant: None, offset: 0, end: false }, b"typed\n")
        .await
        .unwrap();
    assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().code, Some(0));
    assert_eq!(house.text(environment, start.process, None).await, "30 100\r\ntyped\r\n40 90\r\ntyped\r\n");
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn an_idle_environment_leaves_nothing_behind() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = Blueprint { idle_milliseconds: 100, ..house.blueprint(environment) };
    let start = house.start("true");
    house.stewards.start(&blueprint, &start).await.unwrap();
    house.until_over(environment, start.process).await;
    while blueprint.run.exists() || house.stewards.find(environment).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_is_left_behind_keeps_it_awake_without_a_busy_keeper() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = Blueprint { idle_milliseconds: 100, ..house.blueprint(environment) };
    let start = house.start("setsid sleep 2 >/dev/null 2>&1 &");
    house.stewards.start(&blueprint, &start).await.unwrap();
    house.until_over(environment, start.process).await;
    let connection = house.stewards.find(environment).await.unwrap().unwrap();
    let Answer::Hello { pid, .. } = connection.call(Call::Hello { protocol: PROTOCOL }, &[]).await.unwrap() else { panic!("no hello") };
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<u64> = stat.rsplit(')').next().unwrap().split_whitespace().filter_map(|field| field.parse().ok()).collect();
        // Ticks of processor time, of its own and for the kernel; the first field is a letter.
        fields[10] + fields[11]
    };
    let before = used();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(blueprint.run.exists(), "something still runs inside");
    assert!(used() - before < 30, "the keeper is busy: {} ticks in a second", used() - before);
    while blueprint.run.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_flood_of_output_is_kept_to_its_cap() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let start = house.start("head -c 100000000 /dev/zero; echo end");
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    let over = house.until_over(environment, start.process).await;
    assert_eq!(over.end, 100_000_004);
    let kept: u64 = walk(&house.blueprint(environment).logs);
    assert!(kept <= 68 << 20, "{kept}");
    let tail = house.stewards.read(environment, start.process, 100_000_000, None, None, 100).await.unwrap().unwrap();
    assert!(matches!(&tail.pieces[..], [Piece::Bytes { bytes, .. }] if bytes == b"end\n"));
    house.stewards.sleep(environment, true).await.unwrap();
}

/// Reads everything from an offset on, as far as it is there, and checks that nothing is missing.
async fn read_on(house: &House, environment: EnvironmentId, process: ProcessId, from: &mut u64, up_to: u64) {
    while *from < up_to {
        let found = house.stewards.read(environment, process, *from, None, None, 1 << 20).await.unwrap().unwrap();
        assert!(!found.pieces.iter().any(|piece| matches!(piece, Piece::Gap { .. })), "at {from}: {:?}", found.pieces.len());
        if found.next == *from {
            return;
        }
        *from = found.next;
    }
}

#[tokio::test]
async fn what_is_held_waits_for_the_slowest_who_follows() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let start = Start { hold: true, ..house.start("head -c 200000000 /dev/zero; echo end >&2") };
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    let fast = house.stewards.follow(environment, start.process, 0).await.unwrap().unwrap();
    let slow = house.stewards.follow(environment, start.process, 0).await.unwrap().unwrap();
    let end = async |steps| {
        let (mut seen, mut still) = (0, 0);
        for _ in 0..steps {
            let now = house.stewards.progress(environment, start.process).await.unwrap().unwrap();
            still = if now.end == seen { still + 1 } else { 0 };
            // A slow disk makes it pause too, but not for so long.
            if now.exit.is_some() || (still >= 10 && seen > 50 << 20) {
                return now;
            }
            seen = now.end;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("it neither ends nor stops: {seen}");
    };
    let mut read = 0;
    let first = end(300).await;
    assert!(first.exit.is_none() && first.end < 70 << 20, "{first:?}");
    // One that is ahead makes no difference.
    assert!(fast.reached(first.end));
    let same = end(300).await;
    assert_eq!((same.exit, same.end), (None, first.end));
    while house.stewards.progress(environment, start.process).await.unwrap().unwrap().exit.is_none() {
        read_on(&house, environment, start.process, &mut read, u64::MAX).await;
        assert!(slow.reached(read) && fast.reached(read));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    read_on(&house, environment, start.process, &mut read, u64::MAX).await;
    assert_eq!(read, 200_000_004);
    let kept: u64 = walk(&house.blueprint(environment).logs);
    assert!(kept <= 72 << 20, "{kept}");
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn what_is_held_goes_on_when_nobody_follows_any_more() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let held = Start { hold: true, ..house.start("head -c 200000000 /dev/zero") };
    house.stewards.start(&house.blueprint(environment), &held).await.unwrap();
    // Nobody ever came, and somebody who came and went with the server that spoke for them.
    let other = Start { hold: true, ..house.start("head -c 200000000 /dev/zero") };
    house.stewards.start(&house.blueprint(environment), &other).await.unwrap();
    let gone = house.stewards.follow(environment, other.process, 0).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(gone);
    for process in [held.process, other.process] {
        let over = house.until_over(environment, process).await;
        assert_eq!((over.end, over.exit.unwrap().code), (200_000_000, Some(0)));
    }
    house.stewards.sleep(environment, true).await.unwrap();
}

#[tokio::test]
async fn one_that_is_held_can_be_ended_and_keeps_what_it_said() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let start = Start { hold: true, timeout_milliseconds: Some(3000), ..house.start("exec cat /dev/zero") };
    house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
    let _stalled = house.stewards.follow(environment, start.process, 0).await.unwrap().unwrap();
    let over = house.until_over(environment, start.process).await;
    assert_eq!(over.exit.unwrap().cause, ExitCause::Timeout);
    let mut read = 0;
    read_on(&house, environment, start.process, &mut read, u64::MAX).await;
    // How much that is in its time is the disk's affair.
    assert!(read == over.end && read > 0, "{read} of {}", over.end);
    house.stewards.sleep(environment, true).await.unwrap();
}

fn walk(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { walk(&path) } else { path.metadata().unwrap().len() }).sum()
}

/// Limits need a host that lets us bound groups of processes; said where it does not.
fn bounded_here() -> bool {
    let available = stead_sandbox::cgroup::Availability::probe();
    let here = available.memory == stead_sandbox::cgroup::Support::Enforced;
    if !here {
        let _ = writeln!(std::io::stderr(), "not run: this host bounds no groups of processes: {:?}", available.memory);
    }
    here
}

#[tokio::test]
async fn limits_hold_and_say_that_they_were_hit() {
    if !bounded_here() {
        return;
    }
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let limits = stead_place::blueprint::Limits { memory_bytes: Some(64 << 20), pids: Some(40), ..Default::default() };
    let blueprint = Blueprint { limits, ..house.blueprint(environment) };
    let mut hungry = house.start("");
    hungry.argv = ["python3", "-c", "x = bytearray(300 << 20); print(len(x))"].map(str::to_owned).to_vec();
    house.stewards.start(&blueprint, &hungry).await.unwrap();
    let exit = house.until_over(environment, hungry.process).await.exit.unwrap();
    assert_eq!((exit.cause, exit.signal), (ExitCause::OutOfMemory, Some(9)));
    let many = house.start("for i in $(seq 100); do sleep 5 & done; wait");
    house.stewards.start(&blueprint, &many).await.unwrap();
    let exit = house.until_over(environment, many.process).await.exit.unwrap();
    assert_eq!(exit.limits_hit, ["pids"]);
    let modest = house.start("echo fine");
    house.stewards.start(&blueprint, &modest).await.unwrap();
    assert_eq!(house.until_over(environment, modest.process).await.exit.unwrap().cause, ExitCause::Exited);
    house.stewards.sleep(environment, true).await.unwrap();
    assert!(stead_sandbox::cgroup::Group::open(&stead_sandbox::cgroup::Availability::probe(), &environment.short()).unwrap().is_none());
}

#[tokio::test]
async fn what_is_written_over_a_copy_stays_apart() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let mut blueprint = house.blueprint(environment);
    let layer = house.data.join("changes");
    blueprint.workspace.access = WorkspaceKind::CopyOnWrite { layer: layer.clone() };
    std::fs::write(house.data.join("workspace/kept"), "before").unwrap();
    for (script, expected) in
        [("cat kept; echo after > kept; echo new > new; cat kept new", "beforeafter\nnew\n"), ("cat kept new", "after\nnew\n")]
    {
        let start = house.start(script);
        house.stewards.start(&blueprint, &start).await.unwrap();
        house.until_over(environment, start.process).await;
        assert_eq!(house.text(environment, start.process, None).await, expected);
        // Asleep and awake again.
        house.stewards.sleep(environment, true).await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(house.data.join("workspace/kept")).unwrap(), "before");
    assert!(!house.data.join("workspace/new").exists() && layer.join("upper/new").exists());
}
