//! Who is the first inside, written down beside the lock of its steward. The kernel ends everything inside when a steward is killed, but not at
//! that moment: whoever finds the lock free has to know whether it is over by now.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

const NAME: &str = "init";
/// How often a new steward looks whether what the one before left has ended, and how long it waits in between.
const LOOKS: usize = 5000;
const MOMENT: Duration = Duration::from_millis(1);

/// Writes down who has been begun by us, before anything runs that somebody asked for; false when that is not known. A link is made in one
/// step, and needs no room of its own.
pub fn note(run: &Path, pid: Option<i32>) -> io::Result<bool> {
    let begun = pid.or_else(|| fs::read_to_string("/proc/thread-self/children").ok()?.split_whitespace().next()?.parse().ok());
    let Some((pid, since)) = begun.and_then(|pid| Some((pid, since(pid)?))) else { return Ok(false) };
    let path = run.join(NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => symlink(format!("{pid}-{since}-{}", boot()?), path)?,
    }
    Ok(true)
}

/// Whether nothing is left inside of what a steward that was killed kept here. When init has ended, everything inside has.
pub fn are_gone(run: &Path) -> io::Result<bool> {
    let noted = match fs::read_link(run.join(NAME)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        noted => noted?,
    };
    let parts: Vec<&str> = noted.to_str().unwrap_or_default().splitn(3, '-').collect();
    let [pid, began, of_boot] = parts[..] else { return Err(ErrorKind::InvalidData.into()) };
    let pid = pid.parse().map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
    // Numbers are given again, but not with the same beginning.
    Ok(of_boot != boot()? || since(pid).is_none_or(|since| since.to_string() != began))
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

/// When a process began, as the kernel counts; none when it has ended, buried or not.
fn since(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
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
        assert!(note(run.path(), Some(pid)).unwrap());
        assert!(!are_gone(run.path()).unwrap());
        let noted = fs::read_link(run.path().join(NAME)).unwrap().to_str().unwrap().to_owned();
        let since = since(pid).unwrap().to_string();
        for other in [noted.replace(&since, "1"), noted.replace(&boot().unwrap(), "another")] {
            fs::remove_file(run.path().join(NAME)).unwrap();
            symlink(other, run.path().join(NAME)).unwrap();
            assert!(are_gone(run.path()).unwrap(), "it has the number of somebody else");
        }
        assert!(note(run.path(), Some(pid)).unwrap());
        child.kill().unwrap();
        assert!(wait_for(run.path()).unwrap(), "also before it is buried");
        child.wait().unwrap();
        assert!(are_gone(run.path()).unwrap());
        fs::remove_file(run.path().join(NAME)).unwrap();
        symlink("nonsense", run.path().join(NAME)).unwrap();
        assert!(are_gone(run.path()).is_err());
    }
}
