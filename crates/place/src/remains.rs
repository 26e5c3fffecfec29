//! Who is the first inside, written down beside the lock of its steward. The kernel ends everything inside when a steward is killed, but not at
//! that moment: whoever finds the lock free has to know whether it is over by now.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

const NAME: &str = "init";
/// How often a new steward looks whether what the one before left has ended, and how long it waits in between.
const LOOKS: usize = 5000;
const MOMENT: Duration = Duration::from_millis(1);

/// Writes down who has been begun by us, before anything runs that somebody asked for, and says who that is; none when it is not known. A link is
/// made in one step, and needs no room of its own.
pub fn note(run: &Path, pid: Option<i32>) -> io::Result<Option<i32>> {
    let begun = pid.or_else(|| fs::read_to_string("/proc/thread-self/children").ok()?.split_whitespace().next()?.parse().ok());
    let Some(pid) = begun else { return Ok(None) };
    let Some(since) = since(pid)? else { return Ok(None) };
    let (path, noted) = (run.join(NAME), format!("{pid}:{since}:{}", here(run)?));
    match symlink(&noted, &path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(&path)?;
            symlink(noted, path)?;
        }
        outcome => outcome?,
    }
    Ok(Some(pid))
}

/// Whether nothing is left inside of what a steward that was killed kept here. When init has ended, everything inside has.
pub fn are_gone(run: &Path) -> io::Result<bool> {
    let noted = match fs::read_link(run.join(NAME)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        noted => noted?,
    };
    let parts: Vec<&str> = noted.to_str().unwrap_or_default().splitn(3, ':').collect();
    let [pid, began, at] = parts[..] else { return Err(ErrorKind::InvalidData.into()) };
    let pid = pid.parse().map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
    // Numbers are given again, but not with the same beginning.
    let is_another = since(pid)?.is_some_and(|since| since.to_string() != began);
    Ok(at != here(run)? || is_another || has_ended(pid)?)
}

/// Waits until they are; false when that takes too long.
pub fn wait_for(run: &Path) -> io::Result<bool> {
    for _ in 0..LOOKS {
        if are_gone(run)? {
            return Ok(true);
        }
        std::thread::sleep(MOMENT);
    }
    Ok(false)
}

/// When a process began, as the kernel counts; none when it is not to be seen.
fn since(pid: i32) -> io::Result<Option<u64>> {
    Ok(stat(pid)?.and_then(|(_, since)| since.parse().ok()))
}

/// Its state, and when it began.
fn stat(pid: i32) -> io::Result<Option<(String, String)>> {
    let text = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return Ok(None),
        text => text?,
    };
    let mut fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().map(str::to_owned);
    Ok(fields.next().zip(fields.nth(18)))
}

/// Whether it has ended, buried or not: what is first inside does so after everybody else.
fn has_ended(pid: i32) -> io::Result<bool> {
    let exists = || Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    // The kernel may show it to nobody, and knows it all the same.
    Ok(stat(pid)?.map_or_else(|| !exists(), |(state, _)| matches!(state.as_str(), "Z" | "X")))
}

/// This start of the host, and this very directory: in a copy of it nobody was ever begun. Short, so that the link needs no block.
fn here(run: &Path) -> io::Result<String> {
    let boot: String = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    let directory = fs::metadata(run)?;
    Ok(format!("{boot}:{:x}:{:x}", directory.dev(), directory.ino()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_has_ended_is_gone_and_nobody_else_is_taken_for_it() {
        let run = tempfile::TempDir::new().unwrap();
        assert!(are_gone(run.path()).unwrap(), "nobody was ever there");
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(note(run.path(), Some(pid)).unwrap(), Some(pid));
        assert!(!are_gone(run.path()).unwrap());
        let noted = fs::read_link(run.path().join(NAME)).unwrap().to_str().unwrap().to_owned();
        let since = since(pid).unwrap().unwrap().to_string();
        let copy = tempfile::TempDir::new().unwrap();
        symlink(&noted, copy.path().join(NAME)).unwrap();
        assert!(are_gone(copy.path()).unwrap(), "a copy tells of nobody");
        assert!(noted.len() < 60, "{noted}");
        let boot = here(run.path()).unwrap().split(':').next().unwrap().to_owned();
        for other in [noted.replace(&since, "1"), noted.replace(&boot, "another")] {
            fs::remove_file(run.path().join(NAME)).unwrap();
            symlink(other, run.path().join(NAME)).unwrap();
            assert!(are_gone(run.path()).unwrap(), "it has the number of somebody else");
        }
        assert_eq!(note(run.path(), Some(pid)).unwrap(), Some(pid));
        child.kill().unwrap();
        assert!(wait_for(run.path()).unwrap(), "also before it is buried");
        child.wait().unwrap();
        assert!(are_gone(run.path()).unwrap());
        fs::remove_file(run.path().join(NAME)).unwrap();
        symlink("nonsense", run.path().join(NAME)).unwrap();
        assert!(are_gone(run.path()).is_err());
    }
}
