//! What the tests that use the library themselves have in common.
#![allow(dead_code, reason = "not every one of them uses everything")]

use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use stead_sandbox::{Command, Event, Exit, Place, Plan, Skeleton, Streams};

pub const ORDINARY: u32 = 5001;

/// Gets a directory that all cases share.
pub type Case = fn(&Path) -> Outcome;

/// Why a case cannot be run on this machine, if it cannot. One that fails panics.
pub type Outcome = Result<(), String>;

/// Runs all cases as who we are, and if that is root, once more as an ordinary user.
pub fn main(cases: &[(&str, Case)]) {
    if let Some(directory) = begin() {
        run_all(cases, directory.path());
    }
}

/// A directory for all cases; none for who only wants to know what there is to run.
pub fn begin() -> Option<tempfile::TempDir> {
    let mut arguments = std::env::args();
    if arguments.any(|argument| argument == "--list") {
        // All cases in one go: who makes a place has one thread, and nothing here is ignored.
        if !std::env::args().any(|argument| argument == "--ignored") {
            println!("all_cases: test");
        }
        return None;
    }
    let directory = tempfile::Builder::new().prefix("stead-place-").tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    Some(directory)
}

pub fn run_all(cases: &[(&str, Case)], directory: &Path) {
    let caller = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    for (name, case) in cases {
        let began = Instant::now();
        match case(directory) {
            Ok(()) => println!("as {caller}: {name} ... ok ({} ms)", began.elapsed().as_millis()),
            Err(reason) => println!("as {caller}: {name} ... NOT RUN: {reason}"),
        }
    }
    if caller == "root" {
        // Where the ordinary user can read it, with temporary files of its own.
        let program = directory.join("again");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let own = directory.join("own");
        std::fs::create_dir(&own).unwrap();
        chown(&own, Some(ORDINARY), Some(ORDINARY)).unwrap();
        let id = ORDINARY.to_string();
        let status = std::process::Command::new("setpriv")
            .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"])
            .arg(&program)
            .env("TMPDIR", &own)
            .env("AFTER_ROOT", "1")
            .status()
            .unwrap();
        assert!(status.success());
    } else if std::env::var_os("AFTER_ROOT").is_none() {
        println!("as root: not run, because the tests do not run as root");
    }
}

pub fn plan(directory: &Path) -> Plan {
    let skeleton = directory.join("skeleton");
    let skeleton = Skeleton::open(&skeleton).unwrap_or_else(|| Skeleton::build(&skeleton).unwrap());
    Plan { directory: PathBuf::from("/tmp"), ..Plan::new(skeleton) }
}

pub fn command(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(Into::into).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: None,
        limits: Vec::new(),
    }
}

pub fn null() -> OwnedFd {
    File::options().read(true).write(true).open("/dev/null").unwrap().into()
}

pub fn request(place: &mut Place, process: u64, command: &Command) {
    let null = null();
    place.request(process, command, Streams::Pipes([null.as_fd(); 3])).unwrap();
}

/// The next event, within some seconds.
pub fn next(place: &mut Place) -> Event {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(event) = place.receive().unwrap() {
            return event;
        }
        assert!(Instant::now() < until, "init says nothing");
        let mut watched = [PollFd::from_borrowed_fd(place.socket(), PollFlags::IN)];
        poll(&mut watched, Some(&rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap();
    }
}

pub fn started(place: &mut Place) -> Option<OwnedFd> {
    match next(place) {
        Event::Started { terminal, .. } => terminal,
        other => panic!("{other:?}"),
    }
}

pub fn end_of(place: &mut Place) -> Exit {
    match next(place) {
        Event::Ended(exit) => exit,
        other => panic!("{other:?}"),
    }
}

pub fn run(place: &mut Place, command: &Command) -> (Exit, String) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let null = null();
    place.request(77, command, Streams::Pipes([null.as_fd(), write.as_fd(), write.as_fd()])).unwrap();
    drop(write);
    assert!(started(place).is_none());
    let mut text = String::new();
    File::from(read).read_to_string(&mut text).unwrap();
    (end_of(place), text)
}

/// A new, empty directory in place of one that is there.
pub fn fresh(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    // The kernel's own directories are closed to their owner too.
    let _ = std::process::Command::new("chmod").args(["-Rf", "u+rwx"]).arg(&path).status();
    let _ = fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A system with little in it, but enough to run a shell.
pub fn little_system(directory: &Path) -> PathBuf {
    let system = fresh(directory, "system");
    for name in ["usr/bin", "usr/lib", "usr/lib64", "etc", "dev", "proc", "tmp", "opt/own"] {
        fs::create_dir_all(system.join(name)).unwrap();
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), system.join(name)).unwrap();
    }
    for program in ["sh", "ls", "cat", "touch", "mkdir", "id", "chown", "chmod"] {
        let path = Path::new("/usr/bin").join(program).canonicalize().unwrap();
        fs::copy(&path, system.join("usr/bin").join(program)).unwrap();
        let needed = std::process::Command::new("ldd").arg(&path).output().unwrap();
        for library in String::from_utf8_lossy(&needed.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
            let real = Path::new(library).canonicalize().unwrap();
            let target = if library.starts_with("/lib64") { "usr/lib64" } else { "usr/lib" };
            fs::copy(real, system.join(target).join(Path::new(library).file_name().unwrap())).unwrap();
        }
    }
    fs::write(system.join("etc/passwd"), "root:x:0:0::/:/bin/sh\n").unwrap();
    fs::write(system.join("etc/hosts"), "").unwrap();
    fs::write(system.join("top"), "of its own").unwrap();
    fs::set_permissions(&system, fs::Permissions::from_mode(0o755)).unwrap();
    system
}

/// With where such a system has its libraries.
pub fn library_path(mut command: stead_sandbox::Command) -> stead_sandbox::Command {
    command.env.push(("LD_LIBRARY_PATH".into(), "/usr/lib".into()));
    command
}
