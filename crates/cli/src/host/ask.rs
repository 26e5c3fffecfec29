//! Has it tried, by a process of its own, and remembers what it said.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{ROLE, Report};
use crate::atomic_file::{self, Contents};

/// It takes some hundredths of a second, and seconds where the machine is emulated; one that hangs is ended.
const PATIENCE: Duration = Duration::from_secs(20);
const LARGEST: usize = 64 * 1024;

fn file(data_dir: &Path) -> PathBuf {
    data_dir.join("abilities.json")
}

/// What was found the last time, if that was this user on this boot of this machine.
pub fn recall(data_dir: &Path) -> Option<Report> {
    let Ok(Contents::Bytes(bytes)) = atomic_file::read_bounded(&file(data_dir)) else { return None };
    serde_json::from_slice(&bytes).ok().filter(Report::is_of_now)
}

/// Keeps it for the next start. Whoever cannot waits then as it did now.
pub fn remember(data_dir: &Path, report: &Report) {
    let kept = serde_json::to_vec(report).ok().map(|bytes| atomic_file::replace(&file(data_dir), &bytes, 0o600));
    if !matches!(kept, Some(Ok(()))) {
        tracing::warn!("what this host can do could not be written down");
    }
}

/// Tries everything now, with files below a directory. Blocks for a moment.
pub fn ask(directory: &Path) -> Result<Report, String> {
    let mut child = Command::new("/proc/self/exe")
        .arg0("stead")
        .arg(ROLE)
        .arg(directory)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the trial of this host could not be started: {error}"))?;
    let said = listen(&mut child);
    // After a whole answer it has nothing left to do; otherwise it is of no use.
    if said.is_err() {
        let _ = child.kill();
    }
    let _ = child.wait();
    serde_json::from_slice(&said?).map_err(|error| format!("the trial of this host ended without an answer: {error}"))
}

fn listen(child: &mut Child) -> Result<Vec<u8>, String> {
    let mut out = child.stdout.take().ok_or("the trial of this host cannot be heard")?;
    let deadline = Instant::now() + PATIENCE;
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(out.as_fd(), PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(format!("the trial of this host did not end within {} seconds", PATIENCE.as_secs())),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.to_string()),
        }
        match out.read(&mut buffer) {
            Ok(0) => return Ok(said),
            Ok(length) if said.len() + length <= LARGEST => said.extend_from_slice(&buffer[..length]),
            Ok(_) => return Err("the trial of this host says too much".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}
