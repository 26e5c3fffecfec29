//! The library used as a keeper uses it: by a process with one thread, as root and as an ordinary user.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Case, Outcome, command, end_of, next, null, plan, request, run, started};
use stead_sandbox::{Command, Error, Event, Limit, Place, StartStep, Streams, fork_apart, message};

const CASES: &[(&str, Case)] = &[
    ("output comes through pipes and the end is told", output_and_end),
    ("a terminal is the place's own", terminal),
    ("what cannot be started says which step failed", start_failures),
    ("limits bound one process and are only lowered", limits),
    ("signals reach the whole group", signals),
    ("strays are buried silently", strays),
    ("many ends that nobody reads hold nothing up", many_without_reading),
    ("an environment larger than a packet arrives", large_environment),
    ("a place that has ended says so", ended),
    ("an end is told while a child still holds the output", output_held),
    ("a signal to what has ended reaches nobody", late_signal),
    ("work goes on apart", apart),
    ("an errand runs inside, out of reach of others there", errands),
];

fn main() {
    common::main(CASES);
}

/// Answers each path with what is there, and the path `?` with how it sees itself.
fn read_for_others(descriptor: std::os::fd::OwnedFd) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = rustix::io::read(&descriptor, &mut buffer) {
        let path = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let said = if path == "?" {
            let held = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
            format!("{} {held} {}", std::process::id(), rustix::process::getuid().as_raw())
        } else {
            std::fs::read_to_string(path).unwrap_or_else(|error| error.kind().to_string())
        };
        if rustix::io::write(&descriptor, said.as_bytes()).is_err() {
            return;
        }
    }
}

fn errands(directory: &Path) -> Outcome {
    let mut place = Place::start(&stead_sandbox::Plan { errands: Some(read_for_others), ..plan(directory) }).unwrap();
    let (exit, _) = run(&mut place, &command(&["sh", "-c", "echo made inside > /tmp/file; ln -s /etc/shadow /tmp/link"]));
    assert_eq!(exit.code, Some(0));
    let open = |place: &Place| {
        let (ours, theirs) = message::pair().unwrap();
        place.errand(theirs.as_fd()).unwrap();
        ours
    };
    let ask = |socket: &std::os::fd::OwnedFd, path: &str| {
        rustix::io::write(socket, path.as_bytes()).unwrap();
        let mut buffer = [0; 4096];
        let length = rustix::io::read(socket, &mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let (first, second) = (open(&place), open(&place));
    assert_eq!(ask(&second, "/tmp/file"), "made inside\n");
    assert_eq!(ask(&first, "/tmp/link"), "entity not found", "it has no other root than everybody inside");
    let seen = ask(&first, "?");
    let [pid, held, uid] = seen.split(' ').collect::<Vec<_>>()[..] else { panic!("{seen}") };
    // The standard ones, what it was given, and the directory that it counts them in.
    assert_eq!((held, uid), ("5", "1000"));
    let script = format!("ls /proc/{pid}/fd 2>&1; cat /proc/{pid}/environ 2>&1; head -c 1 /proc/{pid}/mem 2>&1; echo end");
    let (_, text) = run(&mut place, &command(&["sh", "-c", &script]));
    assert_eq!(text.matches("Permission denied").count(), 3, "{text}");
    // It ends with whom it serves, and is buried.
    drop((first, second));
    let until = Instant::now() + Duration::from_secs(20);
    while run(&mut place, &command(&["sh", "-c", &format!("test -d /proc/{pid}")])).0.code == Some(0) {
        assert!(Instant::now() < until);
    }
    // And with the place.
    let left = open(&place);
    place.end();
    assert_eq!(rustix::io::read(&left, &mut [0; 1]).unwrap(), 0);
    Ok(())
}

fn output_and_end(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    assert!(place.pid() > 0 && place.receive().unwrap().is_none());
    let (exit, text) = run(&mut place, &command(&["sh", "-c", "pwd; echo wrong >&2; head -c 3000000 /dev/zero > /tmp/x; exit 3"]));
    assert_eq!((exit.process, exit.code, exit.signal, text.as_str()), (77, Some(3), None, "/tmp\nwrong\n"));
    assert!(exit.usage.cpu_microseconds > 0 && exit.usage.peak_memory_kilobytes > 100, "{exit:?}");
    let (exit, _) = run(&mut place, &command(&["sh", "-c", "kill -KILL $$"]));
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    place.end();
    Ok(())
}

fn terminal(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let script =
        "tty; stty size; test -t 0 && test -t 1 && test -t 2 && exec 3<>/dev/tty && echo own; read line; echo got $line; ls /dev/pts";
    place.request(1, &command(&["sh", "-c", script]), Streams::Terminal { rows: 33, cols: 99 }).unwrap();
    let mut keeper = File::from(started(&mut place).expect("a terminal"));
    keeper.write_all(b"typed\n").unwrap();
    let mut text = String::new();
    let mut part = [0; 1024];
    // The end of a terminal whose last user is gone reads as an error.
    while let Ok(length) = keeper.read(&mut part) {
        text.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    let exit = end_of(&mut place);
    assert_eq!(exit.code, Some(0), "{text}");
    for line in ["/dev/pts/0", "33 99", "own", "got typed", "0  ptmx"] {
        assert!(text.lines().any(|said| said.trim_end() == line), "{line}: {text}");
    }
    // The number is free again: init holds no end of it.
    drop(keeper);
    place.request(2, &command(&["tty"]), Streams::Terminal { rows: 1, cols: 1 }).unwrap();
    let mut keeper = File::from(started(&mut place).unwrap());
    let length = keeper.read(&mut part).unwrap();
    assert_eq!(String::from_utf8_lossy(&part[..length]).trim_end(), "/dev/pts/0");
    Ok(())
}

fn start_failures(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let mut fail = |command: &Command| {
        request(&mut place, 5, command);
        match next(&mut place) {
            Event::NotStarted { process: 5, failure } => (failure.step, failure.cause.raw_os_error().unwrap()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fail(&command(&["no-such-program"])), (StartStep::Program, 2));
    assert_eq!(fail(&command(&["/tmp"])), (StartStep::Program, 13));
    assert_eq!(fail(&command(&[])), (StartStep::Program, 2));
    assert_eq!(fail(&command(&["a\0b"])), (StartStep::Program, 22));
    assert_eq!(fail(&command(&["/proc/meminfo"])), (StartStep::Program, 13));
    assert_eq!(fail(&command(&["sh/"])), (StartStep::Program, 2));
    assert_eq!(fail(&Command { directory: Some("/proc/1/cwd".into()), ..command(&["true"]) }).0, StartStep::Directory);
    assert_eq!(fail(&Command { directory: Some("/nowhere".into()), ..command(&["true"]) }), (StartStep::Directory, 2));
    // One argument larger than the kernel takes.
    assert_eq!(fail(&command(&["true", &"x".repeat(140_000)])), (StartStep::Program, 7));
    // For another machine, and for none.
    run(
        &mut place,
        &command(&[
            "sh",
            "-c",
            "printf '\\177ELF\\002\\001\\001' > /tmp/x; head -c 200 /dev/zero >> /tmp/x; echo words > /tmp/y; chmod +x /tmp/x /tmp/y",
        ]),
    );
    let mut fail = |command: &Command| {
        request(&mut place, 5, command);
        match next(&mut place) {
            Event::NotStarted { process: 5, failure } => (failure.step, failure.cause.raw_os_error().unwrap()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fail(&command(&["/tmp/x"])), (StartStep::Program, 8));
    assert_eq!(fail(&command(&["/tmp/y"])), (StartStep::Program, 8));
    let too_much: Vec<String> = (0..100).map(|_| "x".repeat(100_000)).collect();
    let too_much = command(&too_much.iter().map(String::as_str).collect::<Vec<_>>());
    let null = null();
    match place.request(6, &too_much, Streams::Pipes([null.as_fd(); 3])) {
        Err(Error::Outside { cause, .. }) => assert_eq!(cause.raw_os_error(), Some(7)),
        other => panic!("{other:?}"),
    }
    assert_eq!(run(&mut place, &command(&["true"])).0.code, Some(0));
    Ok(())
}

fn limits(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let limits = vec![(Limit::OpenFiles, 17), (Limit::FileSize, 4096), (Limit::CpuSeconds, 1 << 40)];
    let bounded =
        Command { limits, ..command(&["bash", "-c", "ulimit -Sn; ulimit -Hn; ulimit -f; ulimit -c; head -c 5000 /dev/zero > /tmp/large"]) };
    let (exit, text) = run(&mut place, &bounded);
    assert_eq!(text.lines().take(4).collect::<Vec<_>>(), ["17", "17", "4", "0"], "{exit:?}");
    assert_ne!(exit.code, Some(0));
    let (_, text) = run(&mut place, &command(&["bash", "-c", "ulimit -Hn"]));
    assert_ne!(text.trim(), "17", "the next one is not bounded");
    let busy = Command { limits: vec![(Limit::CpuSeconds, 1)], ..command(&["sh", "-c", "while :; do :; done"]) };
    let (exit, _) = run(&mut place, &busy);
    assert!(matches!(exit.signal, Some(libc::SIGKILL | libc::SIGXCPU)), "{exit:?}");
    Ok(())
}

fn signals(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let null = null();
    let command = command(&["sh", "-c", "sleep 100 & echo ready; wait"]);
    place.request(9, &command, Streams::Pipes([null.as_fd(), write.as_fd(), write.as_fd()])).unwrap();
    drop(write);
    started(&mut place);
    let mut read = File::from(read);
    let mut part = [0; 16];
    assert_eq!(read.read(&mut part).unwrap(), 6);
    place.signal(8, libc::SIGTERM).unwrap();
    assert!(place.receive().unwrap().is_none(), "another number is nobody");
    place.signal(9, libc::SIGTERM).unwrap();
    let exit = end_of(&mut place);
    assert_eq!((exit.process, exit.signal), (9, Some(libc::SIGTERM)));
    // The one in the background is gone too: nobody holds the pipe.
    assert_eq!(read.read(&mut part).unwrap(), 0);
    Ok(())
}

fn strays(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let (exit, _) =
        run(&mut place, &command(&["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do (true & true); done; (sleep 0.05 >/dev/null 2>&1 &)"]));
    assert_eq!(exit.code, Some(0));
    std::thread::sleep(Duration::from_millis(150));
    assert!(place.receive().unwrap().is_none());
    let (_, text) = run(&mut place, &command(&["sh", "-c", "ls -d /proc/[0-9]* | wc -l"]));
    // init, the shell, ls and wc.
    assert!(text.trim().parse::<u32>().unwrap() <= 4, "{text}");
    Ok(())
}

fn many_without_reading(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let large = "x".repeat(8_000);
    let count = 300;
    for process in 0..count {
        request(&mut place, process, &command(&["true", &large]));
    }
    let (mut starts, mut ends) = (0, 0);
    while ends < count {
        match next(&mut place) {
            Event::Started { .. } => starts += 1,
            Event::Ended(exit) => {
                assert_eq!(exit.code, Some(0));
                ends += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(starts, count);
    Ok(())
}

fn large_environment(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let mut command = command(&["sh", "-c", "env | wc -c"]);
    command.env.extend((0..10).map(|number| (format!("LARGE_{number}").into(), "y".repeat(100_000).into())));
    let (exit, text) = run(&mut place, &command);
    assert_eq!(exit.code, Some(0));
    assert!(text.trim().parse::<u32>().unwrap() > 1_000_000, "{text}");
    Ok(())
}

fn ended(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    request(&mut place, 1, &command(&["sleep", "100"]));
    started(&mut place);
    rustix::process::pidfd_send_signal(place.pidfd(), rustix::process::Signal::KILL).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match place.receive() {
            Ok(None) => assert!(Instant::now() < until),
            Err(Error::Ended) => break,
            other => panic!("{other:?}"),
        }
    }
    let null = null();
    assert!(matches!(place.request(2, &command(&["true"]), Streams::Pipes([null.as_fd(); 3])), Err(Error::Ended)));
    assert!(matches!(place.signal(2, 9), Err(Error::Ended)));
    Ok(())
}

fn output_held(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let null = null();
    let command = command(&["sh", "-c", "sleep 600 & exit 4"]);
    place.request(1, &command, Streams::Pipes([null.as_fd(), write.as_fd(), write.as_fd()])).unwrap();
    drop(write);
    started(&mut place);
    let began = Instant::now();
    assert_eq!(end_of(&mut place).code, Some(4));
    assert!(began.elapsed() < Duration::from_secs(5));
    // The output ends with the place.
    place.end();
    assert_eq!(File::from(read).read(&mut [0; 1]).unwrap(), 0);
    Ok(())
}

fn late_signal(directory: &Path) -> Outcome {
    let mut place = Place::start(&plan(directory)).unwrap();
    for process in 0..50 {
        request(&mut place, process, &command(&["true"]));
        // Before, while and after it ends.
        place.signal(process, libc::SIGTERM).unwrap();
        started(&mut place);
        place.signal(process, libc::SIGTERM).unwrap();
        assert_eq!(end_of(&mut place).process, process);
        place.signal(process, libc::SIGKILL).unwrap();
    }
    request(&mut place, 99, &command(&["sleep", "0.2"]));
    started(&mut place);
    for process in 0..50 {
        place.signal(process, libc::SIGKILL).unwrap();
    }
    assert_eq!(end_of(&mut place).code, Some(0));
    Ok(())
}

/// The session of this process; zero when it began outside this namespace of processes, which `getsid` of rustix does
/// not expect.
fn session() -> i32 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(3).unwrap().parse().unwrap()
}

fn apart(_: &Path) -> Outcome {
    let (ours, theirs) = message::pair().unwrap();
    let not_kept = File::open("/dev/null").unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&not_kept);
    let caller = session();
    let (pid, pidfd) = fork_apart(vec![theirs], |kept| {
        let mut buffer = [0; 16];
        let received = message::receive(kept[0].as_fd(), &mut buffer).unwrap().unwrap();
        let alone = session() != caller;
        let closed = !Path::new(&format!("/proc/self/fd/{number}")).exists();
        let passed = received.descriptors.len() == 1;
        let standard = std::fs::read_link("/proc/self/fd/1").unwrap() == Path::new("/dev/null");
        message::send(kept[0].as_fd(), format!("{alone} {closed} {passed} {standard}").as_bytes(), &[]).unwrap();
        panic!("is not seen by the caller")
    })
    .unwrap();
    message::send(ours.as_fd(), b"go", &[not_kept.as_fd()]).unwrap();
    let mut buffer = [0; 64];
    let received = message::receive(ours.as_fd(), &mut buffer).unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&buffer[..received.length]), "true true true true");
    let status = rustix::process::waitid(rustix::process::WaitId::PidFd(pidfd.as_fd()), rustix::process::WaitIdOptions::EXITED).unwrap();
    assert_eq!(status.unwrap().exit_status(), Some(101));
    assert!(pid > 0);
    Ok(())
}
