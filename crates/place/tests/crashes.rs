//! Stewards, spawners and inits that are killed at any moment: what was acknowledged stays, and nothing is left over.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod house;

use std::fs;
use std::path::Path;
use std::time::Duration;

use house::House;
use rustix::process::{Pid, Signal, kill_process};
use stead_domain::ids::EnvironmentId;
use stead_domain::process::ExitCause;
use stead_place::client::Trouble;
use stead_place::log::Piece;
use stead_place::protocol::{Answer, Call, Refusal};

/// Every process of this machine that was made for a house: its pid, its parent and its command.
fn processes_of(data: &Path) -> Vec<(i32, i32, String)> {
    let mark = data.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0);
        // The first process of a place says nothing of its own, and sees the workspace mounted.
        let mounts = String::from_utf8_lossy(&read("mountinfo")).into_owned();
        if command.contains(&mark) || environment.contains(&mark) || mounts.contains(&mark) {
            found.push((pid, parent, command));
        }
    }
    found
}

fn kill(pid: i32) {
    // It may be gone already, which is what was wanted.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

fn rounds() -> usize {
    if std::env::var_os("STEAD_PROVE").is_some() { 2000 } else { 60 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_over_whoever_is_killed_and_whenever() {
    let house = House::new();
    let directory = house.data.display().to_string();
    for round in 0..rounds() {
        let environment = EnvironmentId::new(&house.context);
        let mut blueprint = house.blueprint(environment);
        blueprint.env.push(("MARK".to_owned(), directory.clone()));
        let start = house.start("sleep 1000 & (setsid sleep 1000 &) ; echo ready; sleep 1000");
        // A victim that is killed while everything is being made, at another moment each time.
        let data = house.data.clone();
        let delay = Duration::from_micros((round as u64 * 977) % 20_000);
        let killer = tokio::task::spawn_blocking(move || {
            std::thread::sleep(delay);
            let all = processes_of(&data);
            // The spawner is the one that this process started; stewards are its children, or nobody's.
            let own = std::process::id().cast_signed();
            let victims: Vec<i32> = match round % 4 {
                0 => {
                    all.iter().filter(|(_, parent, command)| *parent != own && command.contains("skeleton")).map(|(pid, ..)| *pid).collect()
                }
                1 => {
                    all.iter().filter(|(_, parent, command)| *parent == own && command.contains("skeleton")).map(|(pid, ..)| *pid).collect()
                }
                2 => all.iter().filter(|(_, _, command)| command.starts_with("init ")).map(|(pid, ..)| *pid).collect(),
                _ => all.iter().filter(|(_, _, command)| command.contains("sleep")).map(|(pid, ..)| *pid).take(1).collect(),
            };
            victims.into_iter().for_each(kill);
        });
        let started = house.stewards.start(&blueprint, &start).await;
        killer.await.unwrap();
        match started {
            Ok(()) => {
                // Acknowledged: it runs, or it is told how it ended.
                let progress = house.stewards.progress(environment, start.process).await.unwrap();
                assert!(progress.is_some(), "round {round}");
            }
            Err(Trouble::Gone | Trouble::Broken(_) | Trouble::Refused(Refusal::CannotBeMade { .. } | Refusal::Failed { .. })) => {}
            Err(other) => panic!("round {round}: {other:?}"),
        }
        house.stewards.sleep(environment, true).await.unwrap();
        assert!(!blueprint.run.exists(), "round {round}");
    }
    // A killed steward's init is told by the kernel, and ends a moment later.
    for _ in 0..500 {
        let left: Vec<_> =
            processes_of(&house.data).into_iter().filter(|(_, parent, _)| *parent != std::process::id().cast_signed()).collect();
        if left.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("left over: {:?}", processes_of(&house.data));
}

/// What `seq -w` prints of eight digits, from an offset on.
fn numbers(offset: u64, length: usize) -> Vec<u8> {
    let lines: String = (offset / 9..=(offset + length as u64) / 9).map(|number| format!("{number:08}\n")).collect();
    lines.into_bytes()[(offset % 9) as usize..][..length].to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steward_that_is_killed_in_a_flood_leaves_what_was_printed_and_nothing_else() {
    let house = House::new();
    for round in 0..if std::env::var_os("STEAD_PROVE").is_some() { 200 } else { 6 } {
        let environment = EnvironmentId::new(&house.context);
        let mut start = house.start("exec seq -w 0 99999999");
        start.log_bytes = Some(4 << 20);
        house.stewards.start(&house.blueprint(environment), &start).await.unwrap();
        let mut seen = house.stewards.progress(environment, start.process).await.unwrap().unwrap();
        // Files are recycled from here on; each time it is killed at another moment.
        while seen.end < (6 << 20) + round * 77_777 {
            seen = house.stewards.further(environment, start.process, &seen).await.unwrap().unwrap();
        }
        processes_of(&house.data).iter().filter(|(_, _, command)| command.contains("skeleton")).for_each(|(pid, ..)| kill(*pid));
        let (mut next, mut gaps) = (0, Vec::new());
        loop {
            let found = house.stewards.read(environment, start.process, next, None, None, 1 << 20).await.unwrap().unwrap();
            for piece in &found.pieces {
                match piece {
                    Piece::Bytes { offset, bytes, .. } => assert!(*bytes == numbers(*offset, bytes.len()), "round {round}, at {offset}"),
                    Piece::Gap { from, to } => gaps.push((*from, *to)),
                }
            }
            if found.next == next {
                break;
            }
            next = found.next;
        }
        assert!(next >= seen.end, "round {round}: what was told of is there");
        assert_eq!(gaps.len(), 1, "round {round}: {gaps:?}");
        let told = house.stewards.progress(environment, start.process).await.unwrap().unwrap();
        assert_eq!((told.end, told.exit.unwrap().cause), (next, ExitCause::Lost), "round {round}");
        house.stewards.sleep(environment, true).await.unwrap();
    }
}

#[tokio::test]
async fn a_killed_spawner_is_replaced_and_its_stewards_go_on() {
    let house = House::new();
    let (first, second) = (EnvironmentId::new(&house.context), EnvironmentId::new(&house.context));
    let start = house.start("echo before; read line; echo after");
    let start = stead_place::protocol::Start { stdin_open: true, ..start };
    house.stewards.start(&house.blueprint(first), &start).await.unwrap();
    let own = std::process::id().cast_signed();
    processes_of(&house.data).iter().filter(|(_, parent, _)| *parent == own).for_each(|(pid, ..)| kill(*pid));
    let other = house.start("true");
    house.stewards.start(&house.blueprint(second), &other).await.unwrap();
    assert_eq!(house.until_over(second, other.process).await.exit.unwrap().code, Some(0));
    let written =
        house.stewards.call(first, Call::Stdin { process: start.process, warrant: None, offset: 0, end: true }, b"x\n").await.unwrap();
    assert!(matches!(written, Answer::Written { offset: 2 }));
    assert_eq!(house.until_over(first, start.process).await.exit.unwrap().code, Some(0));
    assert_eq!(house.text(first, start.process, None).await, "before\nafter\n");
    for environment in [first, second] {
        house.stewards.sleep(environment, true).await.unwrap();
    }
}
