//! What a whole place may use, and what happens when it wants more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{Case, Outcome, command, end_of, next, plan, request, run, started};
use stead_sandbox::cgroup::{Availability, Group, Limits, Support};
use stead_sandbox::{Error, Event, Place, Plan, StartStep};

const CASES: &[(&str, Case)] = &[
    ("a fork bomb stops at its bound and the place still answers", fork_bomb),
    ("a memory hog is ended alone and it is told", memory_hog),
    ("files in memory count", files_in_memory),
    ("a stopped place can be ended", stopped),
    ("bounds that cannot be kept are refused", refused),
    ("ten thousand strays leave nothing behind", many_strays),
    ("what bounds a process cannot be raised from inside", raised),
];

fn main() {
    common::main(CASES);
}

/// A place in a group, if this host can have one for us; says so if not.
fn bounded(directory: &Path, name: &str, limits: Limits) -> Result<(Place, Group), String> {
    let available = Availability::probe();
    available.prepare().unwrap();
    match Group::create(&available, &format!("test-{name}-{}", std::process::id()), limits) {
        Ok(group) => {
            let place = Place::start(&Plan { group: Some(group.clone()), ..plan(directory) }).unwrap();
            Ok((place, group))
        }
        Err(Error::Unavailable { what, why }) => Err(format!("{what}: {why}")),
        Err(error) => panic!("{error}"),
    }
}

fn finish(place: Place, group: &Group) {
    place.end();
    group.kill().unwrap();
    group.remove().unwrap();
}

fn fork_bomb(directory: &Path) -> Outcome {
    let limits = Limits { pids: Some(64), ..Limits::default() };
    let (mut place, group) = bounded(directory, "bomb", limits)?;
    let bomb = "import os, sys, time
forks = 0
try:
    while True:
        if os.fork() == 0: time.sleep(600)
        forks += 1
except BlockingIOError:
    os._exit(forks)";
    request(&mut place, 1, &command(&["python3", "-c", bomb]));
    started(&mut place);
    let forks = end_of(&mut place).code.unwrap();
    assert!((30..64).contains(&forks), "{forks}");
    // One more is refused, and says at which step; the place itself goes on.
    for attempt in 0..3 {
        request(&mut place, 2, &command(&["sleep", "600"]));
        match next(&mut place) {
            Event::Started { .. } => assert!(attempt < 2),
            Event::NotStarted { failure, .. } => {
                assert_eq!((failure.step, failure.cause.raw_os_error()), (StartStep::Memory, Some(libc::EAGAIN)));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(group.events().unwrap().pids_hits > 0);
    let (usage, began) = (group.usage().unwrap(), Instant::now());
    assert!(usage.pids <= 64, "{usage:?}");
    finish(place, &group);
    assert!(began.elapsed() < Duration::from_secs(5));
    Ok(())
}

fn memory_hog(directory: &Path) -> Outcome {
    let limits = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
    let (mut place, group) = bounded(directory, "hog", limits)?;
    let (exit, text) = run(&mut place, &command(&["sh", "-c", "python3 -c 'x = b\"x\" * 300000000'; echo $?"]));
    assert_eq!((exit.code, text.trim().ends_with("137")), (Some(0), true), "{text}");
    assert_eq!(group.events().unwrap().oom_kills, 1);
    let usage = group.usage().unwrap();
    assert!(usage.peak_memory_bytes <= 64 << 20 && usage.cpu_microseconds > 0, "{usage:?}");
    assert_eq!(run(&mut place, &command(&["true"])).0.code, Some(0), "init is still there");
    finish(place, &group);
    Ok(())
}

fn files_in_memory(directory: &Path) -> Outcome {
    let limits = Limits { memory_bytes: Some(32 << 20), ..Limits::default() };
    let (mut place, group) = bounded(directory, "files", limits)?;
    let (exit, text) = run(&mut place, &command(&["sh", "-c", "head -c 200000000 /dev/zero > /tmp/x"]));
    assert!(exit.code != Some(0) && text.contains("No space"), "{text}");
    assert_eq!(group.events().unwrap().oom_kills, 0);
    let usage = group.usage().unwrap();
    assert!(usage.peak_memory_bytes <= 32 << 20, "{usage:?}");
    finish(place, &group);
    Ok(())
}

fn stopped(directory: &Path) -> Outcome {
    let (mut place, group) = bounded(directory, "stopped", Limits::default())?;
    request(&mut place, 1, &command(&["sh", "-c", "setsid sleep 600 & kill -STOP $$"]));
    started(&mut place);
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    // From outside, without a word to init.
    group.kill().unwrap();
    finish(place, &group);
    assert!(began.elapsed() < Duration::from_secs(3));
    Ok(())
}

fn refused(_: &Path) -> Outcome {
    let available = Availability::probe();
    assert!(Group::create(&available, "../escape", Limits::default()).is_err());
    let mut kept = 0;
    for (support, limits) in [
        (&available.pids, Limits { pids: Some(5), ..Limits::default() }),
        (&available.memory, Limits { memory_bytes: Some(5 << 20), ..Limits::default() }),
        (&available.cpu, Limits { cpus: Some(0.5), ..Limits::default() }),
    ] {
        if *support == Support::Enforced {
            kept += 1;
        } else {
            assert!(matches!(Group::create(&available, "refused", limits), Err(Error::Unavailable { .. })));
        }
    }
    if kept == 3 { Err("this host can keep them all".to_owned()) } else { Ok(()) }
}

fn many_strays(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let strays = "import os\nfor i in range(100):\n  if os.fork() == 0:\n    for j in range(100):\n      if os.fork() == 0: os._exit(0)\n    os._exit(0)";
    let (exit, text) = run(&mut place, &command(&["python3", "-c", strays]));
    assert_eq!(exit.code, Some(0), "{text}");
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let (_, text) = run(&mut place, &command(&["sh", "-c", "ls -d /proc/[0-9]* | wc -l"]));
        if text.trim().parse::<u32>().unwrap() <= 4 {
            break;
        }
        assert!(Instant::now() < until, "{text}");
    }
    assert!(place.receive().unwrap().is_none());
    Ok(())
}

fn raised(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    for attempt in [
        "import os; os.nice(-1)",
        "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        "import resource; resource.setrlimit(resource.RLIMIT_CORE, (9999, 9999)); assert resource.getrlimit(resource.RLIMIT_CORE)[0] > 1",
        "import resource; h = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; resource.setrlimit(resource.RLIMIT_NOFILE, (h, h + 1))",
        "import os; os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000')",
        "import os; os.write(os.open('/proc/1/oom_score_adj', os.O_WRONLY), b'1000')",
        "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))",
        "import os; os.setpriority(os.PRIO_PROCESS, 1, 19)",
        "import os; os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
        "import os; os.sched_setaffinity(1, {0})",
    ] {
        let (exit, text) = run(&mut place, &command(&["python3", "-c", attempt]));
        assert_ne!(exit.code, Some(0), "{attempt}: {text}");
    }
    Ok(())
}
