//! What is measured, in which order.

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use stead_store::Location;
use stead_testing::PrivatePostgres;
use tempfile::TempDir;

use crate::load::{Measured, Operation, Target};
use crate::report::{Durable, Goal, Memory, Results, Start};
use crate::server::Server;
use crate::{disk, fill};

/// One for each client to edit, and more than a page has: as empty as a store can be for this purpose.
const FEW: usize = 256;
/// What a create writes in one of its commits: a few pages of the database.
const RECORD: usize = 8 << 10;
const STARTS: usize = 20;

pub struct Suite {
    pub binary: PathBuf,
    pub root: PathBuf,
    pub quick: bool,
    pub postgres: bool,
}

/// A store that a server was started on once.
struct Place {
    directory: TempDir,
    database: Option<String>,
    _postgres: Option<PrivatePostgres>,
}

impl Place {
    fn store(&self) -> &'static str {
        if self.database.is_some() { "postgres" } else { "sqlite" }
    }

    fn location(&self) -> Location {
        match &self.database {
            Some(url) => Location::Postgres(url.clone()),
            None => Location::Sqlite(self.directory.path().join("stead.db")),
        }
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn median(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    (milliseconds(times[times.len() / 2]), milliseconds(times[times.len() - 1]))
}

impl Suite {
    fn time(&self) -> Duration {
        if self.quick { Duration::from_millis(400) } else { Duration::from_secs(4) }
    }

    fn many(&self) -> usize {
        if self.quick { 10_000 } else { 100_000 }
    }

    fn place(&self, on_postgres: bool) -> Place {
        let directory = tempfile::Builder::new().prefix("stead-bench-").tempdir_in(&self.root).unwrap();
        let postgres = on_postgres.then(PrivatePostgres::start_durable);
        let place = Place { directory, database: postgres.as_ref().map(PrivatePostgres::url), _postgres: postgres };
        self.start(&place).end();
        place
    }

    fn start(&self, place: &Place) -> Server {
        Server::start(&self.binary, place.directory.path(), place.database.as_deref())
    }

    /// Work on these environments; on some that are made for it when there are none.
    async fn target(&self, place: &Place, server: &Server, ids: Vec<String>) -> Rc<Target> {
        let mut target = Target {
            address: server.address.clone(),
            key: server.key(),
            store: place.store(),
            environments: ids.len(),
            ids,
            serial: Rc::new(Cell::new(0)),
        };
        if target.ids.is_empty() {
            target.prepare(FEW).await;
        }
        Rc::new(target)
    }

    pub async fn run(&self) -> Results {
        let mut load = Vec::new();
        let mut goals = Vec::new();
        let sqlite = self.place(false);

        say("start and memory");
        let (start_median, longest) = median(self.starts(&sqlite));
        let idle = self.idle(&sqlite);

        say("durable creates");
        let syncs = disk::syncs_per_second(sqlite.directory.path(), RECORD, self.time());
        let alone = fill::creates_per_second(&sqlite.location(), 1, self.time()).await;
        let grouped = fill::creates_per_second(&sqlite.location(), 64, self.time()).await;
        let (creates, after_load) = self.durable_creates(&sqlite).await;
        goals.push(Goal::at_least("creates in the store at 64 clients, against a commit for each", 5.0, "x", grouped / alone));
        goals.push(Goal::at_least("creates over HTTP at 64 clients, against a commit for each", 5.0, "x", creates.per_second / alone));
        load.push(creates);
        let durable = Durable { syncs_per_second: syncs, store_creates_at_1: alone, store_creates_at_64: grouped };

        // Removed at the end: a file system that has just lost many directories is slow to make others.
        let mut kept = Vec::new();
        let mut full_start = 0.0;
        let mut full_idle = 0;
        for on_postgres in [false, true] {
            if on_postgres && !self.postgres {
                continue;
            }
            let place = self.place(on_postgres);
            say(&format!("{}: every operation", place.store()));
            load.extend(self.operations(&place).await);
            kept.push(place);

            let place = self.place(on_postgres);
            say(&format!("{}: few environments and many", place.store()));
            let few = self.reads(&place, Vec::new()).await;
            let ids = fill::fill(&place.location(), self.many()).await;
            let many = self.reads(&place, ids).await;
            for (before, after) in few.iter().zip(&many) {
                let name = format!("p99 of {} with many, against few, {}", after.operation, after.store);
                goals.push(Goal::below(name, 2.0, "x", after.p99_milliseconds / before.p99_milliseconds));
            }
            load.extend(few.into_iter().chain(many));
            if !on_postgres {
                full_start = median(self.starts(&place)).0;
                full_idle = self.idle(&place);
            }
            kept.push(place);
        }
        goals.push(Goal::below("ready after the start, on a store that is there", 150.0, " ms", start_median));
        goals.push(Goal::below("resident memory, idle", 40.0, " MB", idle as f64 * 1024.0 / 1e6));
        Results {
            version: env!("CARGO_PKG_VERSION"),
            quick: self.quick,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            binary_bytes: size(&self.binary),
            durable,
            start: Start {
                runs: STARTS,
                median_milliseconds: start_median,
                longest_milliseconds: longest,
                full_median_milliseconds: full_start,
            },
            memory: Memory { idle_kib: idle, full_idle_kib: full_idle, after_load_kib: after_load },
            load,
            goals,
        }
    }

    /// One part alone, said in a line.
    pub async fn creates(&self, time: Duration) {
        let place = self.place(false);
        let syncs = disk::syncs_per_second(place.directory.path(), RECORD, Duration::from_secs(2));
        let server = self.start(&place);
        let target = self.target(&place, &server, Vec::new()).await;
        let before = server.processor_time();
        let measured = target.measure(Operation::Create, 64, time).await;
        let spent = (server.processor_time() - before).as_secs_f64() * 1e6 / measured.requests as f64 / 1.2;
        say(&format!(
            "{syncs:.0} syncs a second, {:.0} creates a second ({:.2}x), p50 {:.2} ms, p99 {:.2} ms, {spent:.0} µs of processor time each",
            measured.per_second,
            measured.per_second / syncs,
            measured.p50_milliseconds,
            measured.p99_milliseconds
        ));
        server.end();
    }

    fn starts(&self, place: &Place) -> Vec<Duration> {
        let once = || {
            let server = self.start(place);
            let took = server.ready_after;
            server.end();
            took
        };
        (0..STARTS).map(|_| once()).collect()
    }

    /// A server that was started, asked once, and left alone for a moment.
    fn idle(&self, place: &Place) -> u64 {
        let server = self.start(place);
        std::thread::sleep(Duration::from_secs(2));
        let resident = server.resident();
        server.end();
        resident
    }

    async fn durable_creates(&self, place: &Place) -> (Measured, u64) {
        let server = self.start(place);
        let target = self.target(place, &server, Vec::new()).await;
        let measured = target.measure(Operation::Create, 64, self.time()).await;
        let resident = server.resident();
        server.end();
        (measured, resident)
    }

    async fn operations(&self, place: &Place) -> Vec<Measured> {
        let server = self.start(place);
        let target = self.target(place, &server, Vec::new()).await;
        let mut measured = Vec::new();
        for operation in Operation::ALL {
            for clients in [1, 16, 256] {
                measured.push(target.measure(operation, clients, self.time()).await);
            }
        }
        server.end();
        measured
    }

    /// Get and list, as often as a p99 needs to be worth comparing.
    async fn reads(&self, place: &Place, ids: Vec<String>) -> Vec<Measured> {
        let server = self.start(place);
        let target = self.target(place, &server, ids).await;
        let mut measured = Vec::new();
        for operation in [Operation::Get, Operation::List] {
            measured.push(target.measure(operation, 16, self.time() * 2).await);
        }
        server.end();
        measured
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
