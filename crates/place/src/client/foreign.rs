//! Stewards of a version that this server does not speak: what they keep is told from files, and to stop one is to kill it.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use stead_domain::ids::{EnvironmentId, ProcessId};
use tokio::task::spawn_blocking;

use super::stewards::{MOMENT, broken, connect};
use super::{Stewards, Trouble};
use crate::log;

/// How long those inside may take to end after their keeper was killed.
const ENDING: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

impl Stewards {
    /// Makes room where a steward is that cannot be spoken to and keeps nothing that runs.
    pub(super) async fn end_foreign(&self, environment: EnvironmentId) -> Result<(), Trouble> {
        let running = self.unfinished(environment).await?;
        if running.is_empty() { self.kill_foreign(environment).await } else { Err(Trouble::Draining(running)) }
    }

    /// What the files do not say the end of.
    pub async fn unfinished(&self, environment: EnvironmentId) -> Result<Vec<ProcessId>, Trouble> {
        let logs = self.directories().logs(environment);
        spawn_blocking(move || log::unfinished(&logs)).await.map_err(broken)?.map_err(broken)
    }

    /// Ends a steward that cannot be asked to end, and waits until everything inside has ended with it.
    pub(super) async fn kill_foreign(&self, environment: EnvironmentId) -> Result<(), Trouble> {
        // Whoever listens is alive for as long as it answers, so its number is still its own.
        let Ok(stream) = connect(&self.directories().run(environment)).await else { return Ok(()) };
        let pid = stream.peer_cred().map_err(broken)?.pid().and_then(Pid::from_raw);
        let steward = pid.map(|pid| (pid, pidfd_open(pid, PidfdFlags::empty())));
        if let Some((pid, Ok(steward))) = steward {
            let inside = spawn_blocking(move || kill(pid, &steward)).await.map_err(broken)?.map_err(broken)?;
            if !inside {
                return Err(Trouble::Broken(
                    "what a keeper of another version kept does not end; somebody inside may wait for a disk".to_owned(),
                ));
            }
        }
        tokio::time::sleep(MOMENT).await;
        Ok(())
    }
}

/// Whether those that it had begun are gone afterwards, init among them.
fn kill(pid: Pid, steward: &OwnedFd) -> std::io::Result<bool> {
    let number = pid.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap_or_default();
    let begun = list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    let begun: Vec<OwnedFd> = begun.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect();
    match pidfd_send_signal(steward, Signal::KILL) {
        Err(Errno::SRCH) => {}
        outcome => outcome?,
    }
    for one in &begun {
        loop {
            match poll(&mut [PollFd::new(one, PollFlags::IN)], Some(&ENDING)) {
                Err(Errno::INTR) => {}
                Ok(0) => return Ok(false),
                outcome => break outcome.map(drop)?,
            }
        }
    }
    Ok(true)
}
