//! What was measured of leases, and whether it is what was wanted.

use std::io::Write;

use serde::Serialize;

use super::expiry::Expiry;
use super::handover::Handover;
use super::pairs::{Kind, Pairs};
use super::queue::Queue;
use crate::report::Goal;

pub const ETCD: &str = "etcd";
/// The durable ones of ours.
pub const STEAD: [&str; 2] = ["stead on sqlite", "stead on postgres"];

/// Who takes part, and what is to be known of it.
#[derive(Serialize)]
pub struct Contender {
    pub name: &'static str,
    /// Whether what it answers is on the disk by then.
    pub durable: bool,
    pub how: &'static str,
    /// Why it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
}

#[derive(Serialize)]
pub struct Leases {
    pub version: &'static str,
    pub quick: bool,
    pub cores: usize,
    pub contenders: Vec<Contender>,
    pub pairs: Vec<Pairs>,
    pub handovers: Vec<Handover>,
    pub expiries: Vec<Expiry>,
    pub queues: Vec<Queue>,
    pub goals: Vec<Goal>,
}

impl Leases {
    pub fn new(quick: bool) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            quick,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            contenders: Vec::new(),
            pairs: Vec::new(),
            handovers: Vec::new(),
            expiries: Vec::new(),
            queues: Vec::new(),
            goals: Vec::new(),
        }
    }

    pub fn judge(&mut self) {
        let mut goals = Vec::new();
        for ours in self.pairs.iter().filter(|one| STEAD.contains(&one.contender)) {
            let same = |one: &&Pairs| one.contender == ETCD && one.kind == ours.kind && one.clients == ours.clients;
            let Some(theirs) = self.pairs.iter().find(same) else { continue };
            let name = format!("pairs, {}, {} at {} clients, against etcd's", ours.contender, name(ours.kind), ours.clients);
            goals.push(Goal::at_least(name, 1.0, "x", ours.per_second / theirs.per_second));
        }
        goals.extend(self.handovers.iter().map(Handover::goal));
        goals.extend(self.queues.iter().map(Queue::goal));
        self.goals = goals;
    }

    pub fn table(&self) {
        let mut out = std::io::stderr().lock();
        let mut line = |text: String| writeln!(out, "{text}").unwrap();
        line(format!(
            "\n{:<13}{:<26}{:>8}{:>12}{:>10}{:>10}{:>14}{:>14}",
            "pairs", "by", "clients", "per second", "p50 ms", "p99 ms", "hand-over p50", "p99 ms"
        ));
        let optional = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        for one in &self.pairs {
            line(format!(
                "{:<13}{:<26}{:>8}{:>12.0}{:>10.3}{:>10.3}{:>14}{:>14}",
                name(one.kind),
                one.contender,
                one.clients,
                one.per_second,
                one.p50_milliseconds,
                one.p99_milliseconds,
                optional(one.handover_p50_milliseconds),
                optional(one.handover_p99_milliseconds),
            ));
        }
        line(String::new());
        for one in &self.contenders {
            let durable = if one.durable { "durable" } else { "not durable" };
            let reason = one.not_run.as_ref().map(|reason| format!(" NOT RUN: {reason}")).unwrap_or_default();
            line(format!("{:<26}{durable:<13}{}{reason}", one.name, one.how));
        }
        line(String::new());
        let handovers = self.handovers.iter().map(Handover::said);
        let others = self.expiries.iter().map(Expiry::said).chain(self.queues.iter().map(Queue::said));
        handovers.chain(others).for_each(&mut line);
        line(String::new());
        for goal in &self.goals {
            line(goal.line());
        }
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Uncontended => "uncontended",
        Kind::Contended => "contended",
    }
}
