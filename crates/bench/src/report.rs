//! What was measured, and whether it is what was wanted.

use std::io::Write;

use serde::Serialize;

use crate::load::Measured;

#[derive(Serialize)]
pub struct Results {
    pub version: &'static str,
    pub quick: bool,
    pub cores: usize,
    pub binary_bytes: u64,
    pub durable: Durable,
    pub start: Start,
    pub memory: Memory,
    pub load: Vec<Measured>,
    pub goals: Vec<Goal>,
}

/// What the disk and the database allow, in a second.
#[derive(Serialize)]
pub struct Durable {
    /// One writer of a file, one sync for each record.
    pub syncs_per_second: f64,
    /// Creates in the store itself, one after the other: a commit, and so a sync, for each.
    pub store_creates_at_1: f64,
    /// The same by 64 at once, who share commits.
    pub store_creates_at_64: f64,
}

/// From the start of the process to the first 200 on `/readyz`, on a store that is there.
#[derive(Serialize)]
pub struct Start {
    pub runs: usize,
    pub median_milliseconds: f64,
    pub longest_milliseconds: f64,
    /// The same with many environments in the store.
    pub full_median_milliseconds: f64,
}

#[derive(Serialize)]
pub struct Memory {
    pub idle_kib: u64,
    pub full_idle_kib: u64,
    pub after_load_kib: u64,
}

#[derive(Serialize)]
pub struct Goal {
    pub goal: String,
    pub wanted: String,
    pub measured: f64,
    pub met: bool,
}

impl Goal {
    pub fn below(goal: impl Into<String>, limit: f64, unit: &str, measured: f64) -> Self {
        Self { goal: goal.into(), wanted: format!("below {limit}{unit}"), measured, met: measured < limit }
    }

    pub fn at_most(goal: impl Into<String>, limit: f64, unit: &str, measured: f64) -> Self {
        Self { goal: goal.into(), wanted: format!("at most {limit}{unit}"), measured, met: measured <= limit }
    }

    pub fn at_least(goal: impl Into<String>, limit: f64, unit: &str, measured: f64) -> Self {
        Self { goal: goal.into(), wanted: format!("at least {limit}{unit}"), measured, met: measured >= limit }
    }

    pub fn line(&self) -> String {
        let met = if self.met { "met   " } else { "MISSED" };
        format!("{met}  {:<72} {:>9.2}  ({})", self.goal, self.measured, self.wanted)
    }
}

pub fn table(results: &Results) {
    let mut out = std::io::stderr().lock();
    let mut line = |text: String| writeln!(out, "{text}").unwrap();
    line(format!("\n{:<10}{:>8}  {:<8}{:>8}{:>12}{:>12}{:>12}", "store", "rows", "what", "clients", "per second", "p50 ms", "p99 ms"));
    for one in &results.load {
        line(format!(
            "{:<10}{:>8}  {:<8}{:>8}{:>12.0}{:>12.3}{:>12.3}",
            one.store, one.environments, one.operation, one.clients, one.per_second, one.p50_milliseconds, one.p99_milliseconds
        ));
    }
    line(format!(
        "\n{:.0} syncs a second, {:.0} creates in the store one by one, {:.0} by 64 at once; ready after {:.1} ms (longest {:.1}, full {:.1}); {:.1} MiB idle ({:.1} full, {:.1} after load); binary {:.1} MiB\n",
        results.durable.syncs_per_second,
        results.durable.store_creates_at_1,
        results.durable.store_creates_at_64,
        results.start.median_milliseconds,
        results.start.longest_milliseconds,
        results.start.full_median_milliseconds,
        results.memory.idle_kib as f64 / 1024.0,
        results.memory.full_idle_kib as f64 / 1024.0,
        results.memory.after_load_kib as f64 / 1024.0,
        results.binary_bytes as f64 / 1024.0 / 1024.0,
    ));
    for goal in &results.goals {
        line(goal.line());
    }
}
