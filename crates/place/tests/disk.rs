//! What the files of an environment may occupy: real places that are filled until they are ended.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

use stead_domain::ids::EnvironmentId;
use stead_domain::process::{ExitCause, ProcessExit};
use stead_place::blueprint::{Bind, Blueprint, Limits};

mod house;

use house::House;

const MIB: u64 = 1 << 20;

fn bounded(house: &House, environment: EnvironmentId, limit: u64) -> Blueprint {
    Blueprint { limits: Limits { disk_bytes: Some(limit), ..Limits::default() }, ..house.blueprint(environment) }
}

async fn run(house: &House, blueprint: &Blueprint, script: &str) -> ProcessExit {
    let start = house.start(script);
    house.stewards.start(blueprint, &start).await.unwrap();
    house.until_over(blueprint.environment, start.process).await.exit.unwrap()
}

#[tokio::test]
async fn who_fills_the_disk_is_ended_and_room_can_be_made() {
    let house = House::new();
    let blueprint = bounded(&house, EnvironmentId::new(&house.context), 32 * MIB);
    assert_eq!(run(&house, &blueprint, "head -c 8M /dev/zero > small").await.code, Some(0));
    let exit = run(&house, &blueprint, "(while :; do sleep 1; done) & cat /dev/zero > large; sleep 600").await;
    assert_eq!((exit.cause, exit.signal, exit.limits_hit), (ExitCause::DiskFull, Some(9), vec!["disk".to_owned()]));
    // Nothing of it goes on, not even what it left in the background.
    let large = std::fs::metadata(house.data.join("workspace/large")).unwrap().len();
    assert!(large > 20 * MIB, "{large}");
    let exit = run(&house, &blueprint, "echo more > more").await;
    assert_eq!((exit.cause, exit.limits_hit), (ExitCause::DiskFull, vec!["disk".to_owned()]));
    let exit = run(&house, &blueprint, "cat large > /dev/null && rm large && ls").await;
    assert_eq!((exit.cause, exit.code), (ExitCause::Exited, Some(0)));
    let exit = run(&house, &blueprint, "head -c 8M /dev/zero > more && cat small more | wc -c").await;
    assert_eq!((exit.cause, exit.code, exit.limits_hit), (ExitCause::Exited, Some(0), Vec::new()));
    house.stewards.sleep(blueprint.environment, true).await.unwrap();
}

#[tokio::test]
async fn what_it_is_made_of_does_not_matter() {
    let house = House::new();
    for (fills, script) in [
        (
            false,
            "truncate -s 1T sparse; mkdir d; head -c 4M /dev/zero > d/one; for i in 1 2 3 4 5 6 7 8 9; do ln d/one d/$i; done; sleep 0.5",
        ),
        (true, "mkdir many; cd many; seq 3000 | xargs mkdir; sleep 600"),
        (true, "exec 3> gone; rm gone; cat /dev/zero >&3"),
        (true, "mkdir closed; cat /dev/zero > closed/file & sleep 0.1; chmod 0 closed; wait; sleep 600"),
    ] {
        let blueprint = bounded(&house, EnvironmentId::new(&house.context), 8 * MIB);
        let exit = run(&house, &blueprint, script).await;
        let expected = if fills { ExitCause::DiskFull } else { ExitCause::Exited };
        assert_eq!(exit.cause, expected, "{script}: {exit:?}");
        house.stewards.sleep(blueprint.environment, true).await.unwrap();
        std::fs::remove_dir_all(house.data.join("workspace")).unwrap();
        std::fs::create_dir(house.data.join("workspace")).unwrap();
    }
}

#[tokio::test]
async fn of_a_directory_of_the_host_only_what_came_on_top_counts() {
    let house = House::new();
    let theirs = house.data.join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("before"), vec![1; 64 * MIB as usize]).unwrap();
    let bound = |writable| Blueprint {
        binds: vec![Bind { source: theirs.clone(), path: "/theirs".into(), writable }],
        ..bounded(&house, EnvironmentId::new(&house.context), 16 * MIB)
    };
    for (writable, script, cause) in [
        (true, "sleep 0.3; head -c 8M /dev/zero > /theirs/more; sleep 0.3", ExitCause::Exited),
        (true, "sleep 0.3; cat /dev/zero > /theirs/more", ExitCause::DiskFull),
    ] {
        let blueprint = bound(writable);
        assert_eq!(run(&house, &blueprint, script).await.cause, cause, "{script}");
        house.stewards.sleep(blueprint.environment, true).await.unwrap();
    }
}

#[tokio::test]
async fn another_bound_holds_at_once_and_a_killed_gauge_is_replaced() {
    let house = House::new();
    let environment = EnvironmentId::new(&house.context);
    let blueprint = bounded(&house, environment, 64 * MIB);
    assert_eq!(run(&house, &blueprint, "head -c 32M /dev/zero > file").await.code, Some(0));
    let start = house.start("sleep 600");
    house.stewards.start(&blueprint, &start).await.unwrap();
    for gauge in gauges(&house, environment) {
        rustix::process::kill_process(gauge, rustix::process::Signal::KILL).unwrap();
    }
    let lower = Blueprint { spec_version: 2, ..bounded(&house, environment, 16 * MIB) };
    house.stewards.adopt(&lower).await.unwrap();
    assert_eq!(house.until_over(environment, start.process).await.exit.unwrap().cause, ExitCause::DiskFull);
    // More room, and everything is as before.
    let higher = Blueprint { spec_version: 3, ..bounded(&house, environment, 64 * MIB) };
    let exit = run(&house, &higher, "echo text > more").await;
    assert_eq!((exit.cause, exit.code, exit.limits_hit), (ExitCause::Exited, Some(0), Vec::new()));
    house.stewards.sleep(environment, true).await.unwrap();
}

/// The processes that measure for a steward: its children in the host's own pid namespace.
fn gauges(house: &House, environment: EnvironmentId) -> Vec<rustix::process::Pid> {
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let steward = keeper_of(&house.blueprint(environment).run);
    let children = std::fs::read_to_string(format!("/proc/{steward}/task/{steward}/children")).unwrap();
    let inside = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|namespace| namespace != own);
    let gauges: Vec<i32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).filter(|pid| !inside(pid)).collect();
    assert_eq!(gauges.len(), 1, "{children}");
    gauges.into_iter().filter_map(rustix::process::Pid::from_raw).collect()
}

/// Who holds the lock on a directory.
fn keeper_of(run: &std::path::Path) -> i32 {
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(run).unwrap());
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let held = locks.lines().find(|line| line.contains(&format!(":{inode} "))).unwrap();
    held.split_whitespace().nth(4).unwrap().parse().unwrap()
}
