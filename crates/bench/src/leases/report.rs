//! What was measured of leases, and whether it is what was wanted.

use std::io::Write;

use serde::Serialize;

use super::expiry::Expiry;
use super::handover::Handover;
use super::pairs::Pairs;
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
    /// What of it was not measured, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<String>,
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
        let of = |contender: &'static str| self.pairs.iter().filter(move |one: &&Pairs| one.contender == contender);
        for contender in STEAD.into_iter().filter(|&contender| of(contender).next().is_some()) {
            for theirs in of(ETCD) {
                let ours = of(contender).find(|one| one.kind == theirs.kind && one.clients == theirs.clients);
                let name = format!("pairs, {contender}, {} at {} clients, against etcd's", theirs.kind.name(), theirs.clients);
                // What failed is no reason to say nothing.
                goals.push(Goal::at_least(name, 1.0, "x", ours.map_or(0.0, |ours| ours.per_second / theirs.per_second)));
            }
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
                one.kind.name(),
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
            line(format!("{:<26}{durable:<13}{}", one.name, one.how));
            one.not_run.iter().for_each(|reason| line(format!("{:<26}not run: {reason}", "")));
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

#[cfg(test)]
mod tests {
    use super::super::pairs::Kind;
    use super::*;

    fn pairs(contender: &'static str, clients: usize, per_second: f64) -> Pairs {
        Pairs {
            contender,
            kind: Kind::Contended,
            clients,
            pairs: 1,
            per_second,
            p50_milliseconds: 1.0,
            p99_milliseconds: 1.0,
            handover_p50_milliseconds: None,
            handover_p99_milliseconds: None,
        }
    }

    #[test]
    fn ours_that_failed_are_missed_and_those_that_were_left_out_are_not_judged() {
        let mut leases = Leases::new(true);
        leases.pairs = vec![pairs(STEAD[0], 1, 300.0), pairs(ETCD, 1, 200.0), pairs(ETCD, 64, 200.0)];
        leases.judge();
        let told: Vec<_> = leases.goals.iter().map(|goal| (goal.measured, goal.met)).collect();
        assert_eq!(told, [(1.5, true), (0.0, false)]);
    }
}
