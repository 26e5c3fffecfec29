//! What was measured of places, and whether it is what was wanted.

use std::io::Write;

use serde::Serialize;

use super::checkpoints::Checkpoints;
use super::crowd::{Awake, Burst};
use super::disk::{OutputSpeed, Stop};
use super::ports::PortSpeed;
use super::race::{AWAKE, NEW, NotRun};
use super::samples::Timing;
use crate::report::Goal;

#[derive(Serialize)]
pub struct Places {
    pub version: &'static str,
    pub quick: bool,
    pub cores: usize,
    pub kernel: String,
    pub timings: Vec<Timing>,
    pub not_run: Vec<NotRun>,
    pub burst: Burst,
    pub awake: Awake,
    pub output: OutputSpeed,
    pub ports: PortSpeed,
    pub checkpoints: Checkpoints,
    pub stop: Stop,
    pub goals: Vec<Goal>,
}

impl Places {
    pub fn judge(&mut self) {
        let find = |what: &str, contender: &str| self.timings.iter().find(|one| one.what == what && one.contender == contender);
        let mut goals = Vec::new();
        if let Some(new) = find(NEW, "stead") {
            goals.push(Goal::at_most("create an environment and finish its first command, p50 against native", 8.0, "x", new.times_native));
        }
        for contender in ["stead exec", "stead process, wait, logs"] {
            let Some(one) = find(AWAKE, contender) else { continue };
            goals.push(Goal::at_most(format!("a command when awake, {contender}, p50 against native"), 2.0, "x", one.times_native));
            goals.push(Goal::at_most(format!("a command when awake, {contender}, p99 against native"), 3.0, "x", one.times_native_p99));
        }
        let name = format!("{} environments created at once, each with a command, p99", self.burst.environments);
        goals.push(Goal::below(name, 1000.0, " ms", self.burst.p99_milliseconds));
        let name = format!("memory of each of {} awake environments", self.awake.environments);
        goals.push(Goal::below(name, 0.6, " MiB", self.awake.kib_each / 1024.0));
        goals.push(Goal::at_most("processes of environments asleep", 0.0, "", self.awake.processes_asleep as f64));
        goals.push(Goal::at_most("mounts of environments asleep", 0.0, "", self.awake.mounts_asleep as f64));
        goals.push(Goal::at_least("output through a process' log, against cat to a file", 0.5, "x", self.output.share));
        goals.push(Goal::at_least("HTTP through a port, against a direct connection", 0.6, "x", self.ports.http_share));
        goals.push(Goal::at_least("a tunnel through a port, against a direct connection", 0.6, "x", self.ports.tunnel_share));
        let checkpoints = &self.checkpoints;
        goals.push(Goal::below("a checkpoint sealed, p50 of the slowest size", 5.0, " ms", checkpoints.worst(|one| one.seal_milliseconds)));
        goals.push(Goal::below("a fork, p50 of the slowest size", 3.0, " ms", checkpoints.worst(|one| one.fork_milliseconds)));
        goals.push(Goal::below("a restore, p50 of the slowest size", 10.0, " ms", checkpoints.worst(|one| one.restore_milliseconds)));
        goals.push(Goal::at_most(
            "a checkpoint sealed, slowest size against fastest",
            1.5,
            "x",
            checkpoints.growth(|one| one.seal_milliseconds),
        ));
        goals.push(Goal::at_most("a fork, slowest size against fastest", 1.5, "x", checkpoints.growth(|one| one.fork_milliseconds)));
        let durable = checkpoints.durable_milliseconds / checkpoints.syncfs_milliseconds;
        goals.push(Goal::at_most("a durable checkpoint, against one syncfs of as much", 1.5, "x", durable));
        let name = format!("stop while a neighbour has {} MiB dirty, the longest", self.stop.dirty_mebibytes_wanted);
        goals.push(Goal::below(name, 10.0, " ms", self.stop.stop_longest_milliseconds));
        self.goals = goals;
    }

    pub fn table(&self) {
        let mut out = std::io::stderr().lock();
        let mut line = |text: String| writeln!(out, "{text}").unwrap();
        line(format!("\n{:<50}{:<27}{:>8}{:>10}{:>10}{:>9}", "what", "by", "samples", "p50 ms", "p99 ms", "x native"));
        for one in &self.timings {
            line(format!(
                "{:<50}{:<27}{:>8}{:>10.3}{:>10.3}{:>9.2}",
                one.what, one.contender, one.samples, one.p50_milliseconds, one.p99_milliseconds, one.times_native
            ));
        }
        for one in &self.not_run {
            line(format!("{:<50}{:<27} not run: {}", one.what, one.contender, one.reason));
        }
        let Self { burst, awake, output, ports, stop, .. } = self;
        let proportional = awake.proportional_kib_each.map_or("unknown".to_owned(), |kib| format!("{kib:.0} KiB"));
        line(format!(
            "\n{} at once: p50 {:.0} ms, p99 {:.0} ms, all after {:.0} ms\n{} awake: {:.0} KiB each by MemAvailable, {:.0} KiB of the kernel's own, \
             {proportional} of processes; made in {:.1} s, stopped in {:.1} s\noutput: {:.0} MB/s through a log, {:.0} MB/s by cat\n\
             ports: {:.0} MB/s direct, {:.0} by HTTP, {:.0} through a tunnel, {:.0} through `port forward`; a request {:.3} ms direct, {:.3} by HTTP, \
             {:.3} with a new connection\nstop: {:.1} ms quiet, {:.1} ms (longest {:.1}) and sleep {:.1} ms (longest {:.1}) with {} MiB dirty\n",
            burst.environments,
            burst.p50_milliseconds,
            burst.p99_milliseconds,
            burst.longest_round_milliseconds,
            awake.environments,
            awake.available_kib_each,
            awake.kernel_kib_each,
            awake.seconds_to_create_and_wake,
            awake.seconds_to_stop,
            output.process_log_megabytes_per_second,
            output.cat_to_file_megabytes_per_second,
            ports.direct_megabytes_per_second,
            ports.http_megabytes_per_second,
            ports.tunnel_megabytes_per_second,
            ports.forward_megabytes_per_second,
            ports.direct_request_milliseconds,
            ports.http_request_milliseconds,
            ports.new_connection_milliseconds,
            stop.quiet_milliseconds,
            stop.stop_p50_milliseconds,
            stop.stop_longest_milliseconds,
            stop.sleep_p50_milliseconds,
            stop.sleep_longest_milliseconds,
            stop.dirty_mebibytes,
        ));
        for one in &self.checkpoints.sizes {
            let copy = one.copy_milliseconds.map_or_else(|| "not run".to_owned(), |copy| format!("{copy:.0} ms"));
            line(format!(
                "{} files, {} MiB: sealed {:.2} ms, forked {:.2} ms, restored {:.2} ms; cp -a {copy}",
                one.files, one.mebibytes, one.seal_milliseconds, one.fork_milliseconds, one.restore_milliseconds
            ));
        }
        let Checkpoints { dirty_mebibytes, durable_milliseconds, syncfs_milliseconds, .. } = &self.checkpoints;
        line(format!("{dirty_mebibytes} MiB dirty: durable {durable_milliseconds:.0} ms, syncfs {syncfs_milliseconds:.0} ms\n"));
        for goal in &self.goals {
            line(goal.line());
        }
    }
}
