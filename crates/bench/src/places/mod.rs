//! Places, side by side with what else runs commands on the same machine in the same run.

mod checkpoints;
mod containers;
mod contest;
mod copies;
mod crowd;
mod disk;
pub mod helper;
mod machine;
pub mod picture;
pub mod ports;
mod race;
mod report;
pub mod samples;
mod search;
pub mod stead;
mod stream;
mod tree;
mod trees;
mod volume;

use std::io::Write;
use std::path::PathBuf;

use contest::Results;
use race::Turns;
pub use report::Places;
use stead::Stead;

/// What can be measured by itself, in the order in which it is.
pub const GROUPS: [&str; 10] = ["awake", "commands", "burst", "output", "ports", "checkpoints", "copies", "trees", "search", "stop"];

pub struct Suite {
    pub binary: PathBuf,
    pub root: PathBuf,
    pub quick: bool,
    /// Only these groups; all of them when it is empty.
    pub only: Vec<String>,
}

impl Suite {
    fn either<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Whether a group is to be measured; it is said that it begins.
    fn begins(&self, group: &str, what: &str) -> bool {
        let wanted = self.only.is_empty() || self.only.iter().any(|one| one == group);
        if wanted {
            let _ = writeln!(std::io::stderr(), "places: {what}");
        }
        wanted
    }

    pub async fn run(&self) -> Places {
        let mut places = Places::new(self.quick);
        // Before anything else, and on a server of its own: the kernel is slow to free network namespaces, and what it gives back meanwhile
        // would be counted.
        if self.begins("awake", "many awake") {
            let stead = Stead::start(&self.binary, &self.root);
            places.awake = Some(crowd::awake(&stead, self.either(50, 1000)).await);
        }
        let stead = Stead::start(&self.binary, &self.root);
        let mut results = Results::default();
        if self.begins("commands", "one command, by turns") {
            let turns = Turns { rounds: self.either(50, 1000), slow_each: self.either(10, 5) };
            race::run(&stead, &turns, &mut results).await;
        }
        if self.begins("burst", "many at once") {
            places.burst = Some(crowd::burst(&stead, 100, self.either(1, 5)).await);
        }
        if self.begins("output", "much output") {
            places.output = Some(disk::output(&stead, self.either(100_000_000, 1_000_000_000), self.either(2, 5)).await);
        }
        if self.begins("ports", "ports") {
            places.ports = Some(ports::speed(&stead, &self.binary, self.either(256 << 20, 2 << 30), self.either(3, 8)).await);
        }
        if self.begins("checkpoints", "checkpoints and forks") {
            places.checkpoints = Some(checkpoints::speed(&stead, self.quick).await);
        }
        if self.begins("copies", "copies, by turns") {
            copies::race(&stead, self.quick, &mut results).await;
        }
        if self.begins("trees", "trees there and back, by turns") {
            trees::race(&stead, self.quick, &mut results).await;
        }
        if self.begins("search", "searches, by turns") {
            search::race(&stead, self.quick, &mut results).await;
        }
        if self.begins("stop", "stop beside a busy neighbour") {
            places.stop = Some(disk::stop(&stead, self.either(256 << 20, 2 << 30), self.either(2, 6)).await);
        }
        (places.timings, places.not_run) = (results.timings, results.not_run);
        places.judge();
        places
    }
}
