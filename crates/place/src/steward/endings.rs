//! How things end: a process by itself, at its deadline, under an older fence; the place; the steward.

use std::mem;

use rustix::process::Signal;
use stead_domain::ids::ProcessId;
use stead_domain::process::{ExitCause, OutputStream, ProcessExit, ProcessUsage};
use stead_sandbox::{Event, Exit, StartFailure, StartStep};

use super::calls::mark;
use super::disk::Held;
use super::egress::Egress;
use super::kept::State;
use super::stdin::Stdin;
use super::{FULL_DISK, GRACE, LOOK_EVERY, Leaving, SYNC_EVERY, Steward, clock};
use crate::log::{self, Kind};
use crate::protocol::{Answer, Refusal};

/// What ends a program that does not look whether it could write: a mapped file that did not grow, an assertion.
const OF_A_FULL_DISK: [i32; 3] = [Signal::BUS.as_raw(), Signal::ABORT.as_raw(), Signal::XFSZ.as_raw()];

/// Of the file system, as the kernel counts them for a process.
const BLOCK: u64 = 512;

impl Steward {
    pub(super) fn hear_init(&mut self) {
        loop {
            match self.inside.receive() {
                Ok(Some(Event::Started { process, terminal })) => self.started(process, terminal),
                Ok(Some(Event::NotStarted { process, failure })) => self.not_started(process, &failure),
                Ok(Some(Event::Ended(exit))) => self.ended(&exit),
                Ok(None) => return,
                Err(_) => {
                    self.place_is_gone();
                    return;
                }
            }
        }
    }

    fn by_number(&self, number: u64) -> Option<ProcessId> {
        self.processes.values().find(|kept| kept.number == number).map(|kept| kept.id)
    }

    fn started(&mut self, number: u64, terminal: Option<std::os::fd::OwnedFd>) {
        let Some(kept) = self.by_number(number).and_then(|id| self.processes.get_mut(&id)) else { return };
        if let Some(master) = terminal {
            let _ = rustix::io::ioctl_fionbio(&master, true);
            if let Ok(writing) = master.try_clone() {
                kept.stdin = Stdin::new(Some(writing), true);
            }
            kept.reads(OutputStream::Stdout, master);
        }
        if let State::Asked { peer, number } = mem::replace(&mut kept.state, State::Running) {
            // Whoever asked knows by that all that there is to know.
            self.answer(peer, number, Answer::Done);
        }
    }

    fn not_started(&mut self, number: u64, failure: &StartFailure) {
        let Some(kept) = self.by_number(number).and_then(|id| self.processes.remove(&id)) else { return };
        if failure.step == StartStep::Secrets {
            // The next start brings them again.
            self.files = None;
        }
        let _ = log::remove(&self.blueprint.logs, kept.id);
        if let State::Asked { peer, number } = kept.state {
            self.answer(peer, number, Answer::Refused(refusal(failure)));
        }
    }

    fn ended(&mut self, exit: &Exit) {
        let Some(id) = self.by_number(exit.process) else { return };
        let events = self.inside.events();
        let Some(kept) = self.processes.get_mut(&id) else { return };
        // A full disk holds the end back until what came before it is stored.
        let stored = kept.drain(&mut self.hold).is_ok() && !self.hold.is_waiting(id);
        let out_of_memory = events.out_of_memory > kept.out_of_memory_before && exit.signal == Some(Signal::KILL.as_raw());
        // Whoever was refused room need not say so; that it failed while there is none is what can be known.
        let refused_room = exit.code != Some(0) && self.held.as_ref().is_some_and(Held::is_full);
        let cause = match (kept.ended_by, exit.signal) {
            (Some(cause), _) => cause,
            (None, Some(_)) if out_of_memory => ExitCause::OutOfMemory,
            (None, None) if refused_room => ExitCause::DiskFull,
            (None, Some(signal)) if refused_room && OF_A_FULL_DISK.contains(&signal) => ExitCause::DiskFull,
            (None, Some(signal)) if kept.may_not_write && signal == Signal::XFSZ.as_raw() => ExitCause::DiskFull,
            (None, Some(_)) => ExitCause::Signaled,
            (None, None) => ExitCause::Exited,
        };
        let limits_hit = [("pids", events.out_of_processes > kept.out_of_processes_before), ("disk", kept.may_not_write || refused_room)];
        let exit = ProcessExit {
            cause,
            code: exit.code,
            signal: exit.signal,
            usage: ProcessUsage {
                cpu_ms: exit.usage.cpu_microseconds / 1000,
                peak_memory_bytes: exit.usage.peak_memory_kilobytes * 1024,
                read_bytes: exit.usage.read_blocks * BLOCK,
                written_bytes: exit.usage.written_blocks * BLOCK,
            },
            duration_ms: clock::milliseconds().saturating_sub(kept.started),
            ended_at: clock::now(),
            limits_hit: limits_hit.into_iter().filter(|(_, hit)| *hit).map(|(limit, _)| limit.to_owned()).collect(),
        };
        let overdue = (kept.ended_by == Some(ExitCause::Timeout)).then_some(kept.number);
        if !stored {
            kept.state = State::Ended(Box::new(exit));
            self.stalled_until = Some(clock::milliseconds() + FULL_DISK);
        } else if kept.write_end(exit, &self.hold).is_err() {
            self.stalled_until = Some(clock::milliseconds() + FULL_DISK);
        }
        // Its time was up for whatever it left behind, too.
        if let (Some(number), Ok(place)) = (overdue, self.inside.place()) {
            let _ = place.end_family(number, &mark(id));
        }
    }

    /// Init is gone, and everything inside with it.
    fn place_is_gone(&mut self) {
        let events = self.inside.events();
        self.inside.end();
        let cause = if events.out_of_memory > 0 { ExitCause::OutOfMemory } else { ExitCause::Lost };
        self.end_what_is_left(cause);
    }

    pub(super) fn end_what_is_left(&mut self, cause: ExitCause) {
        for kept in self.processes.values_mut() {
            let drained = kept.drain(&mut self.hold);
            let stored = drained.and(kept.forget_outputs(&mut self.hold)).is_ok() && !self.hold.is_waiting(kept.id);
            if kept.runs() {
                let cause = kept.ended_by.unwrap_or(cause);
                let exit = ProcessExit {
                    cause,
                    code: None,
                    signal: Some(Signal::KILL.as_raw()),
                    usage: ProcessUsage::default(),
                    duration_ms: clock::milliseconds().saturating_sub(kept.started),
                    ended_at: clock::now(),
                    limits_hit: if cause == ExitCause::DiskFull { vec!["disk".to_owned()] } else { Vec::new() },
                };
                if !stored {
                    kept.state = State::Ended(Box::new(exit));
                    self.stalled_until = Some(clock::milliseconds() + FULL_DISK);
                } else if kept.write_end(exit, &self.hold).is_err() {
                    self.stalled_until = Some(clock::milliseconds() + FULL_DISK);
                }
            }
        }
    }

    /// When something is due, if nothing happens before.
    pub(super) fn due(&self) -> Option<u64> {
        let kept = self.processes.values();
        let deadlines = kept.filter(|kept| kept.runs()).filter_map(|kept| match kept.last_deadline {
            Some(last) => Some(last),
            None => kept.deadline,
        });
        let dirty = self.processes.values().any(|kept| kept.log.is_dirty()).then_some(self.last_sync + SYNC_EVERY);
        let idle = self.processes.is_empty().then_some(self.idle_since + self.blueprint.idle_milliseconds);
        // Once everything has ended, only a full disk is waited for, and that has a time of its own.
        let leaving = self.leaving.as_ref().filter(|_| !self.inside.is_over()).map(|leaving| leaving.deadline);
        let relay = self.egress.as_ref().and_then(|egress| egress.due);
        let disk = self.disk.as_ref().filter(|_| !self.inside.is_over()).and_then(|disk| disk.due);
        let look = Some(self.last_look + LOOK_EVERY);
        let rest = self.rest_at.filter(|_| self.processes.is_empty());
        let stillness = self.stillness_due();
        let now = clock::milliseconds();
        let followers = self.processes.values().filter_map(|kept| kept.followers.as_ref()?.due(now));
        let news = self.processes.values().filter_map(|kept| kept.news_due());
        let held_back = self.processes.values().filter_map(|kept| kept.release_due());
        deadlines
            .chain(followers)
            .chain(news)
            .chain(held_back)
            .chain(look)
            .chain(rest)
            .chain(self.prepare_at)
            .chain(dirty)
            .chain(idle)
            .chain(leaving)
            .chain(self.stalled_until)
            .chain(relay)
            .chain(disk)
            .chain(stillness)
            .min()
    }

    /// Does what is due.
    pub(super) fn tend(&mut self) {
        let now = clock::milliseconds();
        self.tend_stillness(now);
        self.end_the_overdue(now);
        self.watch_disk(now);
        if self.processes.is_empty() && self.rest_at.is_some_and(|rest_at| rest_at <= now) {
            self.rest_at = None;
            self.hold.rest();
            self.resting = true;
            if let Ok(place) = self.inside.place() {
                let _ = place.rest();
            }
        }
        let mut began = false;
        // Others would wait for the disk with it.
        let alone = self.processes.len() == 1;
        for kept in self.processes.values_mut() {
            began |= alone && kept.make_room();
            kept.heed_followers(|(peer, _)| self.peers.contains_key(&peer), now);
            if kept.release(now, &mut self.hold).is_err() {
                self.stalled_until = Some(now + FULL_DISK);
            }
        }
        if began || self.prepare_at.is_some_and(|due| due <= now) {
            self.prepare_for_more();
        }
        if now >= self.last_look + LOOK_EVERY {
            self.last_look = now;
            // Somebody removed it: nobody can ever speak to us again, and nothing runs without a keeper that can be spoken to.
            if rustix::fs::fstat(&self.lock).is_ok_and(|directory| directory.st_nlink == 0) && self.leaving.is_none() {
                self.leaving = Some(Leaving { asked_by: Vec::new(), deadline: now });
            }
        }
        if self.stalled_until.is_some_and(|until| until <= now) {
            self.try_the_disk_again(now);
        }
        // What was left behind is work too: it is looked at again after another while, and not all the time.
        if self.processes.is_empty() && now >= self.idle_since + self.blueprint.idle_milliseconds && self.inside.has_strays() {
            self.idle_since = now;
        }
        if let Some(egress) = &mut self.egress
            && egress.due.is_some_and(|due| due <= now)
        {
            // Not there yet: it sets itself another time.
            let _ = egress.connect(self.inside.outlets());
        }
        if now >= self.last_sync + SYNC_EVERY {
            self.last_sync = now;
            for kept in self.processes.values_mut() {
                let _ = kept.log.sync();
            }
        }
        if self.leaving.as_ref().is_some_and(|leaving| leaving.deadline <= now) && !self.inside.is_over() {
            self.inside.end();
            self.end_what_is_left(ExitCause::Signaled);
        }
    }

    fn end_the_overdue(&mut self, now: u64) {
        let (mut signals, mut families) = (Vec::new(), Vec::new());
        for kept in self.processes.values_mut().filter(|kept| kept.runs()) {
            if kept.last_deadline.is_some_and(|deadline| deadline <= now) {
                families.push((kept.number, mark(kept.id)));
                signals.push((kept.number, Signal::KILL));
                kept.last_deadline = Some(now + GRACE.as_millis() as u64);
            } else if kept.last_deadline.is_none() && kept.deadline.is_some_and(|deadline| deadline <= now) {
                signals.push((kept.number, Signal::TERM));
                kept.ended_by = Some(ExitCause::Timeout);
                kept.last_deadline = Some(now + GRACE.as_millis() as u64);
            }
        }
        if let Ok(place) = self.inside.place() {
            for (number, signal) in signals {
                let _ = place.signal(number, signal.as_raw());
            }
            for (number, mark) in families {
                let _ = place.end_family(number, &mark);
            }
        }
    }

    /// What waited for room is stored first, in the order in which it came; then reading goes on.
    fn try_the_disk_again(&mut self, now: u64) {
        let mut waiting = mem::take(&mut self.hold.waiting).into_iter();
        while let Some((id, stream, bytes)) = waiting.next() {
            let Some(kept) = self.processes.get_mut(&id) else { continue };
            if kept.log.append(Kind::Output(stream), clock::now(), &bytes).is_err() {
                self.hold.waiting.push((id, stream, bytes));
                self.hold.waiting.extend(waiting);
                self.stalled_until = Some(now + FULL_DISK);
                return;
            }
            kept.has_news();
        }
        self.stalled_until = None;
        for kept in self.processes.values_mut() {
            if let State::Ended(exit) = &kept.state {
                let exit = (**exit).clone();
                if kept.drain(&mut self.hold).is_err() || kept.write_end(exit, &self.hold).is_err() {
                    self.stalled_until = Some(now + FULL_DISK);
                }
            }
            kept.close_when_done(&self.hold);
        }
    }

    /// Whether there is nothing left to keep.
    pub(super) fn is_done(&self) -> bool {
        let nothing_runs = !self.processes.values().any(|kept| !matches!(kept.state, State::Over(_)));
        if self.inside.is_over() || self.leaving.is_some() {
            return nothing_runs;
        }
        self.processes.is_empty()
            && clock::milliseconds() >= self.idle_since + self.blueprint.idle_milliseconds
            && !self.inside.has_strays()
    }

    /// Ends what is inside, writes everything down, and tells those who asked.
    pub(super) fn leave(&mut self) {
        self.egress.iter_mut().for_each(Egress::end);
        self.inside.end();
        // Whoever waits for what is over now is told so.
        self.go_on();
        self.end_what_is_left(ExitCause::Signaled);
        for kept in self.processes.values_mut() {
            let _ = kept.log.sync();
        }
        self.tell();
        self.inside.clean_up();
        for (peer, number) in self.leaving.take().map(|leaving| leaving.asked_by).unwrap_or_default() {
            self.answer(peer, number, Answer::Left);
        }
        for (_, peer) in mem::take(&mut self.peers) {
            peer.finish();
        }
    }
}

fn refusal(failure: &StartFailure) -> Refusal {
    let message = failure.cause.to_string();
    match failure.step {
        StartStep::Program => Refusal::Program { message, missing: failure.cause.kind() == std::io::ErrorKind::NotFound },
        StartStep::Directory => Refusal::Directory,
        StartStep::Secrets => Refusal::Secrets {
            message: format!("the files with its secrets could not be written, in memory: {message}"),
            suggestion: "free some of the memory of the environment, and try again".to_owned(),
        },
        _ => Refusal::Failed { message },
    }
}
