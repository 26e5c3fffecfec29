//! Places, side by side with what else runs commands on the same machine in the same run.

mod checkpoints;
mod containers;
mod crowd;
mod disk;
pub mod helper;
mod machine;
pub mod picture;
pub mod ports;
mod race;
mod report;
mod samples;
mod stead;

use std::io::Write;
use std::path::PathBuf;

use race::Turns;
pub use report::Places;
use stead::Stead;

pub struct Suite {
    pub binary: PathBuf,
    pub root: PathBuf,
    pub quick: bool,
}

impl Suite {
    fn either<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// One part alone, as JSON.
    pub async fn ports_alone(&self) {
        let stead = Stead::start(&self.binary, &self.root);
        let ports = ports::speed(&stead, &self.binary, self.either(256 << 20, 2 << 30), self.either(3, 8)).await;
        let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&ports).unwrap_or_default());
    }

    pub async fn run(&self) -> Places {
        let say = |text: &str| {
            let _ = writeln!(std::io::stderr(), "places: {text}");
        };
        // Before anything else, and on a server of its own: the kernel is slow to free network namespaces, and what it gives back meanwhile
        // would be counted.
        say("many awake");
        let awake = {
            let stead = Stead::start(&self.binary, &self.root);
            crowd::awake(&stead, self.either(50, 1000)).await
        };
        let stead = Stead::start(&self.binary, &self.root);
        say("one command, by turns");
        let turns = Turns { rounds: self.either(50, 1000), slow_each: self.either(10, 5) };
        let (timings, not_run) = race::run(&stead, &turns).await;
        say("many at once");
        let burst = crowd::burst(&stead, 100, self.either(1, 5)).await;
        say("much output");
        let output = disk::output(&stead, self.either(100_000_000, 1_000_000_000), self.either(2, 5)).await;
        say("ports");
        let ports = ports::speed(&stead, &self.binary, self.either(256 << 20, 2 << 30), self.either(3, 8)).await;
        say("checkpoints and forks");
        let checkpoints = checkpoints::speed(&stead, self.quick).await;
        say("stop beside a busy neighbour");
        let stop = disk::stop(&stead, self.either(256 << 20, 2 << 30), self.either(2, 6)).await;
        let mut places = Places {
            version: env!("CARGO_PKG_VERSION"),
            quick: self.quick,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            timings,
            not_run,
            burst,
            awake,
            output,
            ports,
            checkpoints,
            stop,
            goals: Vec::new(),
        };
        places.judge();
        places
    }
}
