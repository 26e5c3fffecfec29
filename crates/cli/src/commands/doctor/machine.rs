//! The machine: its kernel and its tools.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::check::Check;
use crate::settings::Surroundings;

/// The first kernel that tells a server which process is at the other end of a unix socket (`SO_PEERPIDFD`).
const NEEDED_KERNEL: (u32, u32) = (6, 5);

pub fn examine(surroundings: &Surroundings) -> [Check; 2] {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    [kernel(&release), git(surroundings)]
}

fn kernel(release: &str) -> Check {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= NEEDED_KERNEL {
        return Check::ok("SD11", "kernel", format!("{release} tells who is at the other end of a unix socket"));
    }
    Check::warn(
        "SD11",
        "kernel",
        format!("{release} cannot tell who is at the other end of a unix socket, so the server asks for a key there too"),
        "use Linux 6.5 or newer, or say --key-file with the owner.key of the data directory",
    )
}

fn git(surroundings: &Surroundings) -> Check {
    let search = surroundings.path("PATH").unwrap_or_default();
    let is_program = |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    match std::env::split_paths(&search).map(|directory| directory.join("git")).find(is_program) {
        Some(path) => Check::ok("SD12", "git", path.display().to_string()),
        None => Check::warn("SD12", "git", "it is not installed, and repositories need it", "apt install git"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    #[test]
    fn kernels_are_compared_by_number() {
        for (release, expected) in [
            ("6.5.0-1-amd64", Status::Ok),
            ("6.12.3", Status::Ok),
            ("10.0", Status::Ok),
            ("6.4.99", Status::Warn),
            ("5.15.0", Status::Warn),
            ("", Status::Warn),
        ] {
            assert_eq!(kernel(release).status, expected, "{release}");
        }
    }
}
