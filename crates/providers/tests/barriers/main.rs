//! After an answered barrier nothing happens under an earlier warrant, whatever ran and whoever is killed: in real places, as root and as an
//! ordinary user.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests fail loudly and say what they did")]

mod files;
mod house;
mod interruptions;
mod zoo;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

const ORDINARY: u32 = 5001;

/// Gets a directory of its own. Says why it cannot be run on this machine, if it cannot.
type Case = fn(&Path) -> Result<(), String>;

const CASES: &[(&str, Case)] = &[
    ("a barrier ends everything and lets the next one in", zoo::everything_ends),
    ("a barrier ends what stands still", zoo::what_stands_still_ends),
    ("one barrier ends both environments of a sandbox", zoo::both_environments_end),
    ("where nothing runs a barrier leaves the place awake", zoo::an_idle_place_stays),
    ("an older barrier and somebody else's are stale", zoo::older_ones_are_stale),
    ("a keeper that is stopped is not taken to be gone", interruptions::a_stopped_keeper),
    ("a keeper that is killed takes everything with it before that is said", interruptions::a_killed_keeper),
    ("a keeper of the last version and a foreign one are ended", interruptions::other_versions),
    ("whoever sleeps is held off by what is written down", files::whoever_wakes_reads_it),
    ("whoever is killed while writing leaves what was there", files::a_killed_writer),
];

fn main() {
    let arguments: Vec<_> = std::env::args_os().collect();
    match arguments.get(1).and_then(|role| role.to_str()) {
        Some("spawner") => return house::spawner(&arguments[2..]),
        Some("raise") => return files::raise_until_killed(Path::new(&arguments[2])),
        _ => {}
    }
    if arguments.iter().any(|argument| argument == "--list") {
        if !arguments.iter().any(|argument| argument == "--ignored") {
            println!("all_cases: test");
        }
        return;
    }
    let directory = tempfile::Builder::new().prefix("stead-barriers-").tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    run_all(directory.path());
}

fn run_all(directory: &Path) {
    let is_root = rustix::process::geteuid().is_root();
    let caller = if is_root { "root" } else { "an ordinary user" };
    for (number, (name, case)) in CASES.iter().enumerate() {
        let own = directory.join(format!("case-{number}"));
        std::fs::create_dir(&own).unwrap();
        match case(&own) {
            Ok(()) => println!("as {caller}: {name} ... ok"),
            Err(reason) => println!("as {caller}: {name} ... NOT RUN: {reason}"),
        }
    }
    if is_root {
        // Where the ordinary user can read it, with temporary files of its own.
        let (program, own) = (directory.join("again"), directory.join("own"));
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        std::fs::create_dir(&own).unwrap();
        chown(&own, Some(ORDINARY), Some(ORDINARY)).unwrap();
        let id = ORDINARY.to_string();
        let mut again = Command::new("setpriv");
        again.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(&program).env("TMPDIR", &own);
        assert!(again.status().unwrap().success());
    }
}
