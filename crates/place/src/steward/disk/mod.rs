//! The bound on what an environment's files occupy. Where a quota of the filesystem holds it (`held`) that is all. Else, and for directories of
//! the host that can be written too, it is watched from outside: may be passed for a moment, and then everything inside ends.
//!
//! How much is there to write between two looks decides how soon the next one comes. A look only asks the filesystems for their free space;
//! when that has fallen by a good part of what is left, or a while has passed, a process of its own measures the trees.
//!
//! A filesystem in a file would be exact, and everything in it out of reach of a server while the environment sleeps: its changes, its files.

mod gauge;
mod held;
mod walk;

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::statfs;
use stead_domain::process::ExitCause;

use self::gauge::{Gauge, Report, Task};
pub use self::held::Held;
use super::inside::Inside;
use super::{Steward, clock};
use crate::blueprint::{Blueprint, WorkspaceKind};

/// Beside the logs: the environment was over its bound when it was last looked at.
const MARK: &str = "disk_full";
/// The fastest that a disk is thought to be filled, in bytes per millisecond.
const FASTEST: u64 = 4 << 20;
/// Looks are not closer together than this, nor further apart.
const CLOSE: u64 = 20;
const FAR: u64 = 1000;
/// Everything is measured after so long, whatever the free space says: others free some while it is used here.
const EVERY: u64 = 5000;
/// For so many times as long as measuring took it is not done again; only once as long when most of what was left may be gone.
const REST: u64 = 9;
/// What may come on top while nothing may be written: directories, names, attributes.
const SLACK: u64 = 1 << 20;
/// How long a start waits to hear whether there is room again.
const PATIENCE: u64 = 2000;

pub struct Disk {
    limit: u64,
    roots: Vec<Root>,
    nameless: u64,
    gauge: Option<Gauge>,
    measuring: Option<Measuring>,
    last: Option<Last>,
    /// When to look again; none while nothing runs.
    pub due: Option<u64>,
    /// Everything was measured after the last process had ended.
    settled: bool,
    /// Until then an errand may be about to begin, though nothing runs yet.
    busy_until: u64,
    /// Over the bound when it was last measured: what is started may remove files and write none.
    full: bool,
    /// How much there may be while it is full; none: that is not measured yet.
    ceiling: Option<u64>,
    mark: PathBuf,
}

struct Root {
    path: PathBuf,
    size: u64,
    /// Of somebody else's directory only what came on top since the first look counts; none before that look.
    before: Option<u64>,
    is_own: bool,
}

struct Measuring {
    since: u64,
    free: Vec<u64>,
}

struct Last {
    at: u64,
    took: u64,
    /// Of each root's filesystem, when measuring began.
    free: Vec<u64>,
}

impl Disk {
    /// None where there is no bound, or nothing that a quota does not hold to it.
    pub fn of(blueprint: &Blueprint, inside: &Inside) -> Option<io::Result<Self>> {
        let limit = blueprint.limits.disk_bytes?;
        let roots = roots(blueprint);
        if blueprint.quota.is_some() && roots.iter().all(|root| root.is_own) {
            // Left from when it was watched.
            let _ = fs::remove_file(blueprint.logs.join(MARK));
            return None;
        }
        let mut disk = Self {
            limit,
            roots,
            nameless: 0,
            gauge: None,
            measuring: None,
            last: None,
            due: None,
            settled: true,
            busy_until: 0,
            full: false,
            ceiling: None,
            mark: blueprint.logs.join(MARK),
        };
        disk.full = disk.mark.exists();
        Some(disk.start_gauge(inside).map(|()| disk))
    }

    fn start_gauge(&mut self, inside: &Inside) -> io::Result<()> {
        let task = Task { roots: self.roots.iter().map(|root| root.path.clone()).collect(), init: inside.pid() };
        self.gauge = Some(Gauge::start(task, inside.user_namespace())?);
        Ok(())
    }

    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.gauge.as_ref().map(Gauge::as_fd)
    }

    /// Something is about to run.
    pub fn begins(&mut self, now: u64) {
        self.due.get_or_insert(now);
        self.settled = false;
    }

    /// Something is about to be done to files by a process that is not kept.
    pub fn begins_errand(&mut self, now: u64) {
        self.begins(now);
        self.busy_until = now + FAR;
    }

    pub fn hold_to(&mut self, limit: u64) {
        self.limit = limit;
    }

    fn used(&self) -> u64 {
        let trees = self.roots.iter().map(|root| root.size.saturating_sub(if root.is_own { 0 } else { root.before.unwrap_or(root.size) }));
        trees.fold(self.nameless, u64::saturating_add)
    }

    fn bound(&self) -> u64 {
        if self.full { self.ceiling.unwrap_or(u64::MAX) } else { self.limit }
    }

    fn is_over(&self) -> bool {
        self.used() > self.bound()
    }

    /// Looks whether it is time to measure, and sets the time of the next look.
    fn look(&mut self, now: u64, quiet: bool, inside: &Inside) {
        if self.measuring.is_none() && (self.has_reason(now, &self.free()) || (quiet && !self.settled && self.is_rested(now, REST))) {
            self.settled |= quiet;
            if self.gauge.is_none() && self.start_gauge(inside).is_err() {
                self.due = Some(now + FAR);
                return;
            }
            self.ask(now);
        }
        let headroom = self.bound().saturating_sub(self.used());
        let done = quiet && self.settled && self.measuring.is_none();
        self.due = (!done).then_some(now + look_after(headroom));
    }

    fn free(&self) -> Vec<u64> {
        let free = |path: &Path| statfs(path).map_or(0, |found| found.f_bfree.saturating_mul(found.f_bsize as u64));
        self.roots.iter().map(|root| free(&root.path)).collect()
    }

    fn is_rested(&self, now: u64, times: u64) -> bool {
        self.last.as_ref().is_none_or(|last| now >= last.at + last.took * times)
    }

    fn has_reason(&self, now: u64, free: &[u64]) -> bool {
        let Some(last) = &self.last else { return true };
        let headroom = self.bound().saturating_sub(self.used());
        let fallen = last.free.iter().zip(free).map(|(before, now)| before.saturating_sub(*now)).max().unwrap_or(0);
        (fallen > headroom / 4 && self.is_rested(now, REST))
            || (fallen > headroom / 2 && self.is_rested(now, 1))
            || (now >= last.at + EVERY && self.is_rested(now, REST))
    }

    fn ask(&mut self, now: u64) {
        let free = self.free();
        match self.gauge.as_mut().map(Gauge::ask) {
            Some(Ok(())) => self.measuring = Some(Measuring { since: now, free }),
            // Gone: the next look starts another.
            _ => self.gauge = None,
        }
    }

    /// Takes in what was measured by now.
    fn hear(&mut self) {
        let Some(gauge) = &mut self.gauge else { return };
        let Ok(reports) = gauge.reports() else {
            self.gauge = None;
            self.measuring = None;
            return;
        };
        for report in reports {
            match report {
                Report::Tree(at, size) => {
                    if let Some(root) = self.roots.get_mut(at) {
                        root.size = size;
                        root.before.get_or_insert(size);
                    }
                }
                Report::Nameless(size) => self.nameless = size,
                Report::Done => self.measured(),
            }
        }
    }

    fn measured(&mut self) {
        let Some(Measuring { since, free }) = self.measuring.take() else { return };
        let now = clock::milliseconds();
        self.last = Some(Last { at: now, took: now.saturating_sub(since), free });
        if self.full && self.used() <= self.limit {
            self.full = false;
            self.ceiling = None;
            let _ = fs::remove_file(&self.mark);
        } else if self.full && self.ceiling.is_none() {
            self.ceiling = Some(self.used().saturating_add(SLACK));
        }
    }

    /// It is over its bound: what is started from now on may only remove.
    fn fill(&mut self) {
        self.full = true;
        self.ceiling = None;
        // Without it the next start is ended once more before that is known.
        let _ = fs::write(&self.mark, []);
    }

    /// Whether what is to be started may write no file. Where it was full, everything is measured first: somebody may have made room.
    pub fn is_full(&mut self) -> bool {
        if !self.full {
            return false;
        }
        let deadline = clock::milliseconds() + PATIENCE;
        self.ceiling = None;
        if self.measuring.is_none() {
            self.ask(clock::milliseconds());
        }
        while let (Some(_), Some(gauge)) = (&self.measuring, self.as_fd()) {
            let left = deadline.saturating_sub(clock::milliseconds());
            let left = Timespec { tv_sec: (left / 1000) as i64, tv_nsec: (left % 1000) as i64 * 1_000_000 };
            match poll(&mut [PollFd::from_borrowed_fd(gauge, PollFlags::IN)], Some(&left)) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(1..) => self.hear(),
                _ => break,
            }
        }
        self.full
    }
}

/// Soon enough that no disk is filled by more than what is left meanwhile, as far as that is possible.
fn look_after(headroom: u64) -> u64 {
    (headroom / FASTEST).clamp(CLOSE, FAR)
}

/// Everything on the disk that the inside can write: what is the environment's own, and directories of the host.
fn roots(blueprint: &Blueprint) -> Vec<Root> {
    let own = blueprint.counted.iter().map(|path| (path, true));
    let workspace = (blueprint.workspace.access == WorkspaceKind::ReadWrite).then_some((&blueprint.workspace.source, false));
    let binds = blueprint.binds.iter().filter(|bind| bind.writable).map(|bind| (&bind.source, false));
    let mut roots: Vec<Root> = Vec::new();
    for (path, is_own) in own.chain(workspace).chain(binds) {
        // What lies in one that is there already is counted there.
        if !roots.iter().any(|root| path.starts_with(&root.path)) {
            roots.retain(|root| root.is_own || !root.path.starts_with(path));
            roots.push(Root { path: path.clone(), size: 0, before: None, is_own });
        }
    }
    roots
}

impl Steward {
    pub(super) fn watch_disk(&mut self, now: u64) {
        let Some(disk) = &mut self.disk else { return };
        if disk.due.is_none_or(|due| due > now) || self.inside.is_over() {
            return;
        }
        let quiet = self.processes.is_empty() && now >= disk.busy_until && !self.inside.has_strays();
        disk.look(now, quiet, &self.inside);
    }

    pub(super) fn hear_gauge(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        disk.hear();
        if !disk.is_over() || self.inside.is_over() {
            return;
        }
        disk.fill();
        if self.processes.values().any(super::kept::Kept::runs) || self.inside.has_strays() {
            for kept in self.processes.values_mut().filter(|kept| kept.runs()) {
                kept.ended_by = Some(ExitCause::DiskFull);
            }
            // Who writes cannot be told apart from who does not, and must not go on writing.
            self.inside.end();
            self.end_what_is_left(ExitCause::DiskFull);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(limit: u64) -> Disk {
        let root = |path: &str, size, is_own| Root { path: path.into(), size, before: Some(40), is_own };
        Disk {
            limit,
            roots: vec![root("/own", 10, true), root("/theirs", 50, false)],
            nameless: 5,
            gauge: None,
            measuring: None,
            last: Some(Last { at: 1000, took: 10, free: vec![1000, 500] }),
            due: None,
            busy_until: 0,
            settled: false,
            full: false,
            ceiling: None,
            mark: "/nowhere/mark".into(),
        }
    }

    #[test]
    fn what_was_there_before_in_somebody_elses_directory_does_not_count() {
        assert_eq!(disk(100).used(), 10 + (50 - 40) + 5);
        assert!(!disk(25).is_over() && disk(24).is_over());
    }

    #[test]
    fn the_less_is_left_the_sooner_it_is_looked() {
        assert_eq!((look_after(0), look_after(1 << 30), look_after(u64::MAX)), (CLOSE, 256, FAR));
    }

    #[test]
    fn it_is_measured_when_what_is_left_may_be_gone_and_not_all_the_time() {
        // 100 are left: a quarter of them gone is a reason, after a rest; most of them gone, at once.
        let disk = disk(125);
        for (now, free, expected) in [
            (1020, [1000, 500], false),
            (1090, [980, 500], false),
            (1080, [970, 500], false),
            (1090, [970, 500], true),
            (1090, [1000, 470], true),
            (1005, [940, 500], false),
            (1010, [940, 500], true),
            (5999, [1000, 500], false),
            (6000, [1000, 500], true),
        ] {
            assert_eq!(disk.has_reason(now, &free), expected, "{now} {free:?}");
        }
    }

    #[test]
    fn a_full_one_may_not_grow_and_is_free_again_below_the_bound() {
        let mut disk = disk(20);
        assert!(disk.is_over());
        disk.fill();
        assert!(!disk.is_over(), "what is there is not known yet");
        disk.measuring = Some(Measuring { since: 0, free: Vec::new() });
        disk.measured();
        assert!(disk.full && !disk.is_over());
        disk.nameless += SLACK + 1;
        assert!(disk.is_over());
        disk.nameless = 0;
        disk.measuring = Some(Measuring { since: 0, free: Vec::new() });
        disk.measured();
        assert!(!disk.full && !disk.is_over());
    }
}
