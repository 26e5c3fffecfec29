//! Leases, side by side with the locks that others give out on the same machine in the same run.

mod advisory;
mod chain;
mod commit;
mod etcd;
mod expiry;
mod grpc;
mod handover;
mod pairs;
mod program;
mod queue;
mod redis;
mod report;
mod session;
mod stead;

use std::io::{Error, Result, Write};
use std::path::PathBuf;
use std::time::Duration;

use stead_testing::PrivatePostgres;
use tokio::task::LocalSet;

use advisory::Advisory;
use etcd::Etcd;
use pairs::Kind;
use redis::{Kept, Redis};
pub use report::Leases;
use report::{Contender, ETCD, STEAD};
use session::Service;
use stead::Target;

const CLIENTS: [usize; 3] = [1, 64, 512];
/// The one that all share, and one for each client.
const ENVIRONMENTS: usize = 1 + CLIENTS[CLIENTS.len() - 1];

pub struct Suite {
    pub binary: PathBuf,
    pub root: PathBuf,
    pub quick: bool,
    pub postgres: bool,
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "leases: {text}");
}

impl Suite {
    fn either<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    pub async fn run(&self) -> Leases {
        // Connections of others are driven by tasks of their own, on this one thread.
        LocalSet::new().run_until(self.run_all()).await
    }

    async fn run_all(&self) -> Leases {
        let mut leases = Leases::new(self.quick);
        for (name, on_postgres) in STEAD.into_iter().zip([false, true]) {
            let outcome = self.ours(&mut leases, name, on_postgres).await;
            let how = "leases by token, each end and beginning with its audit record";
            self.note(&mut leases, Contender { name, durable: true, how, not_run: None }, outcome);
        }
        let redis = "SET NX PX and a script that compares and deletes; no queue, who finds it taken asks again after 5 ms";
        for (name, kept) in [("redis as it comes", Kept::AsItComes), ("redis, appendfsync always", Kept::Durably)] {
            let outcome = match Redis::start(&self.root, kept).await {
                Ok(redis) => self.pairs(&mut leases, name, &redis).await,
                Err(error) => Err(error),
            };
            self.note(&mut leases, Contender { name, durable: kept == Kept::Durably, how: redis, not_run: None }, outcome);
        }
        let outcome = match Etcd::start(&self.root).await {
            Ok(etcd) => self.pairs(&mut leases, ETCD, &etcd).await,
            Err(error) => Err(error),
        };
        let how = "its lock service over gRPC, one node; each client has one lease, and a connection, all the time";
        self.note(&mut leases, Contender { name: ETCD, durable: true, how, not_run: None }, outcome);
        let name = "postgres advisory lock";
        let outcome = match self.with_postgres().and_then(|()| Advisory::start(CLIENTS[CLIENTS.len() - 1])) {
            Ok(advisory) => self.pairs(&mut leases, name, &advisory).await,
            Err(error) => Err(error),
        };
        let how = "pg_advisory_lock and unlock, in memory, by simple queries in a session for each client";
        self.note(&mut leases, Contender { name, durable: false, how, not_run: None }, outcome);
        leases.judge();
        leases
    }

    fn note(&self, leases: &mut Leases, mut contender: Contender, outcome: Result<()>) {
        contender.not_run = outcome.err().map(|error| error.to_string());
        leases.contenders.push(contender);
    }

    fn with_postgres(&self) -> Result<()> {
        match (self.postgres, PrivatePostgres::is_installed()) {
            (true, true) => Ok(()),
            (true, false) => Err(Error::other("PostgreSQL is not installed (`make deps` installs it)")),
            (false, _) => Err(Error::other("PostgreSQL was to be left out")),
        }
    }

    async fn pairs<S: Service>(&self, leases: &mut Leases, name: &'static str, service: &S) -> Result<()> {
        for kind in [Kind::Uncontended, Kind::Contended] {
            for clients in CLIENTS {
                say(&format!("{name}, {kind:?} at {clients}"));
                let time = self.either(Duration::from_millis(400), Duration::from_secs(4));
                leases.pairs.push(pairs::measure(service, name, kind, clients, time).await?);
            }
        }
        Ok(())
    }

    /// What others cannot do, or are not asked for, is measured of ours alone.
    async fn ours(&self, leases: &mut Leases, name: &'static str, on_postgres: bool) -> Result<()> {
        let start = async |environments| {
            let postgres = if on_postgres { Some(PrivatePostgres::start_durable()) } else { None };
            Target::start(&self.binary, &self.root, postgres, environments).await
        };
        if on_postgres {
            self.with_postgres()?;
        }
        let store = if on_postgres { "postgres" } else { "sqlite" };
        say(&format!("{name}, environments to hold"));
        let target = start(ENVIRONMENTS).await;
        self.pairs(leases, name, &target).await?;
        say(&format!("{name}, from one to the next"));
        let time = self.either(Duration::from_millis(400), Duration::from_secs(4));
        leases.handovers.push(handover::measure(&target, store, self.either(2, 30), self.either(50, 1000), time).await?);
        say(&format!("{name}, after an end that its holder did not bring about"));
        leases.expiries.push(expiry::measure(&target, store, self.either(3, 20)).await?);
        drop(target);
        // A store of its own, in which nobody ever held anything.
        let tickets = self.either(5_000, 50_000);
        say(&format!("{name}, {tickets} tickets"));
        leases.queues.push(queue::measure(&start(1).await, store, tickets).await?);
        Ok(())
    }
}
