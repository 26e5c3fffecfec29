//! Against the groups of this host.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::group::check;
use super::*;
use crate::error::Error;

#[test]
fn names_are_no_paths() {
    for name in ["", ".", "..", "a/b", "../x", "a b", "a\n"] {
        assert!(check(name).is_err(), "{name:?}");
    }
    assert!(check("env_01H.x-2").is_ok());
}

fn shell(group: &Group, script: &str) -> Child {
    // Waits for a line before it begins, so that it is in the group by then.
    let mut child =
        Command::new("sh").args(["-c", &format!("read line; {script}")]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    group.attach(i32::try_from(child.id()).unwrap()).unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go\n").unwrap();
    child
}

/// A name that no other run of the tests uses.
fn name(what: &str) -> String {
    format!("test-{what}-{}", std::process::id())
}

#[test]
fn bounds_hold_on_this_host() {
    let available = Availability::probe();
    for (what, support) in [("memory", &available.memory), ("pids", &available.pids), ("cpu", &available.cpu)] {
        if let Support::Unavailable(why) = support {
            println!("not run: bounds of {what}: {why}");
            let limits = Limits { memory_bytes: Some(1), pids: Some(1), cpus: Some(1.0) };
            assert!(matches!(Group::create(&available, "refused", limits), Err(Error::Unavailable { .. })));
            return;
        }
    }
    available.prepare().unwrap();
    let limits = Limits { memory_bytes: Some(32 << 20), pids: Some(10), cpus: Some(0.2) };
    let group = Group::create(&available, &name("bounds"), limits).unwrap();
    let hog = shell(&group, "python3 -c 'x = b\"x\" * 200000000'; exit 3").wait().unwrap();
    assert_eq!(hog.code(), Some(3), "the hog alone was ended");
    assert!(group.events().unwrap().oom_kills >= 1);
    let forks = shell(&group, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 0.3 & done; wait").wait().unwrap();
    assert!(!forks.success());
    assert!(group.events().unwrap().pids_hits >= 1);
    group.kill().unwrap();
    // They count until somebody has buried them.
    let until = Instant::now() + Duration::from_secs(10);
    while group.usage().unwrap().pids > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = (Instant::now(), group.usage().unwrap().cpu_microseconds);
    shell(&group, "timeout 1 sh -c 'while :; do :; done'").wait().unwrap();
    let used = group.usage().unwrap().cpu_microseconds - before.1;
    let share = used as f64 / before.0.elapsed().as_micros() as f64;
    assert!(share > 0.05 && share < 0.35, "{share}");
    let usage = group.usage().unwrap();
    assert!(usage.peak_memory_bytes > 1 << 20 && usage.peak_memory_bytes <= 32 << 20, "{usage:?}");
    group.kill().unwrap();
    group.remove().unwrap();
    assert!(!available.leftovers().unwrap().contains(&name("bounds")));
}

#[test]
fn everything_in_a_group_is_ended_from_outside() {
    let available = Availability::probe();
    let mut layouts = vec![available.layout.clone()];
    // The way of the unified hierarchy works without controllers too.
    let unified_root = Path::new("/sys/fs/cgroup/unified");
    if unified_root.join("cgroup.procs").exists() && rustix::process::geteuid().is_root() {
        layouts.push(Layout::Unified(unified_root.to_owned()));
    }
    for layout in layouts {
        if layout == Layout::None {
            println!("not run: no groups can be made here");
            continue;
        }
        let group = Group { name: name("kill"), layout, memory_bytes: None };
        group.make().unwrap();
        let mut child = shell(
            &group,
            "trap '' TERM HUP INT; for i in 1 2 3 4 5; do setsid sh -c 'trap \"\" TERM; sleep 100; sleep 100' & done; kill -STOP $$",
        );
        let until = Instant::now() + Duration::from_secs(5);
        let procs = group.directories()[0].join("cgroup.procs");
        while fs::read_to_string(&procs).unwrap().lines().count() < 6 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        group.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        group.remove().unwrap();
        assert!(!procs.exists());
    }
}
