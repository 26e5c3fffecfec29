//! What was measured of places, and whether it is what was wanted.

use std::io::Write;

use serde::Serialize;

use super::checkpoints::Checkpoints;
use super::crowd::{Awake, Burst};
use super::disk::{OutputSpeed, Stop};
use super::ports::PortSpeed;
use super::race::{AWAKE, NEW, NotRun};
use super::samples::Timing;
use super::{search, trees};
use crate::report::Goal;

/// Groups that were not asked for are left out.
#[derive(Serialize)]
pub struct Places {
    pub version: &'static str,
    pub quick: bool,
    pub cores: usize,
    pub kernel: String,
    pub timings: Vec<Timing>,
    pub not_run: Vec<NotRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awake: Option<Awake>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSpeed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<PortSpeed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Checkpoints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    pub goals: Vec<Goal>,
}

impl Places {
    pub fn new(quick: bool) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            quick,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            timings: Vec::new(),
            not_run: Vec::new(),
            burst: None,
            awake: None,
            output: None,
            ports: None,
            checkpoints: None,
            stop: None,
            goals: Vec::new(),
        }
    }

    pub fn judge(&mut self) {
        let mut goals = self.of_timings();
        if let Some(burst) = &self.burst {
            let name = format!("{} environments created at once, each with a command, p99", burst.environments);
            goals.push(Goal::below(name, 1000.0, " ms", burst.p99_milliseconds));
        }
        if let Some(awake) = &self.awake {
            let name = format!("memory of each of {} awake environments", awake.environments);
            goals.push(Goal::below(name, 0.6, " MiB", awake.kib_each / 1024.0));
            goals.push(Goal::at_most("processes of environments asleep", 0.0, "", awake.processes_asleep as f64));
            goals.push(Goal::at_most("mounts of environments asleep", 0.0, "", awake.mounts_asleep as f64));
        }
        if let Some(output) = &self.output {
            goals.push(Goal::at_least("output through a process' log, against cat to a file", 0.5, "x", output.share));
        }
        if let Some(ports) = &self.ports {
            goals.push(Goal::at_least("HTTP through a port, against a direct connection", 0.6, "x", ports.http_share));
            goals.push(Goal::at_least("a tunnel through a port, against a direct connection", 0.6, "x", ports.tunnel_share));
        }
        if let Some(checkpoints) = &self.checkpoints {
            goals.extend(checkpoints.goals());
        }
        if let Some(stop) = &self.stop {
            let name = format!("stop while a neighbour has {} MiB dirty, the longest", stop.dirty_mebibytes_wanted);
            goals.push(Goal::below(name, 10.0, " ms", stop.stop_longest_milliseconds));
        }
        self.goals = goals;
    }

    /// What was wanted of those that took turns.
    fn of_timings(&self) -> Vec<Goal> {
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
        // Whoever is measured against is missing where these are 0.
        let known = |one: &&Timing| one.times_native > 0.0;
        for what in [trees::LARGE, trees::SMALL] {
            for contender in [trees::UPLOAD, trees::DOWNLOAD] {
                let Some(one) = find(what, contender).filter(known) else { continue };
                goals.push(Goal::at_least(format!("{what}, {contender}, speed against tar piped"), 0.5, "x", 1.0 / one.times_native));
            }
        }
        for what in [search::FEW, search::MANY] {
            let Some(one) = find(what, search::STEAD).filter(known) else { continue };
            goals.push(Goal::at_most(format!("{what}, p50 against rg"), 1.5, "x", one.times_native));
        }
        goals
    }

    pub fn table(&self) {
        let mut out = std::io::stderr().lock();
        let mut line = |text: String| writeln!(out, "{text}").unwrap();
        line(format!("\n{:<50}{:<27}{:>8}{:>10}{:>10}{:>9}", "what", "by", "samples", "p50 ms", "p99 ms", "x first"));
        for one in &self.timings {
            line(format!(
                "{:<50}{:<27}{:>8}{:>10.3}{:>10.3}{:>9.2}",
                one.what, one.contender, one.samples, one.p50_milliseconds, one.p99_milliseconds, one.times_native
            ));
        }
        for one in &self.not_run {
            line(format!("{:<50}{:<27} not run: {}", one.what, one.contender, one.reason));
        }
        line(String::new());
        let Self { burst, awake, output, ports, checkpoints, stop, .. } = self;
        let said = [
            burst.as_ref().map(Burst::said),
            awake.as_ref().map(Awake::said),
            output.as_ref().map(OutputSpeed::said),
            ports.as_ref().map(PortSpeed::said),
            checkpoints.as_ref().map(Checkpoints::said),
            stop.as_ref().map(Stop::said),
        ];
        for text in said.into_iter().flatten() {
            line(text);
        }
        line(String::new());
        for goal in &self.goals {
            line(goal.line());
        }
    }
}
