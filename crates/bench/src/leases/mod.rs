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
use pairs::{Kind, Run};
use redis::{Kept, Redis};
pub use report::Leases;
use report::{Contender, ETCD, STEAD};
use session::Service;
use stead::Target;

const CLIENTS: [usize; 3] = [1, 64, 512];

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

    fn time(&self) -> Duration {
        self.either(Duration::from_millis(400), Duration::from_secs(4))
    }

    pub async fn run(&self) -> Leases {
        // Connections of others are driven by tasks of their own, on this one thread.
        LocalSet::new().run_until(self.run_all()).await
    }

    async fn run_all(&self) -> Leases {
        let mut leases = Leases::new(self.quick);
        for (name, on_postgres) in STEAD.into_iter().zip([false, true]) {
            let not_run = self.ours(&mut leases, name, on_postgres).await;
            let how = "leases by token, each end and beginning with its audit record";
            leases.contenders.push(Contender { name, durable: true, how, not_run });
        }
        let how = "SET NX PX and a script that compares and deletes; no queue, who finds it taken asks again after 5 ms";
        for (name, kept) in [("redis as it comes", Kept::AsItComes), ("redis, appendfsync always", Kept::Durably)] {
            let not_run = self.pairs(&mut leases, name, Redis::start(&self.root, kept).await).await;
            leases.contenders.push(Contender { name, durable: kept == Kept::Durably, how, not_run });
        }
        let not_run = self.pairs(&mut leases, ETCD, Etcd::start(&self.root).await).await;
        let how = "its lock service over gRPC, one node; each client has one lease, and a connection, all the time";
        leases.contenders.push(Contender { name: ETCD, durable: true, how, not_run });
        let name = "postgres advisory lock";
        let advisory = self.with_postgres().and_then(|()| Advisory::start(CLIENTS[CLIENTS.len() - 1]));
        let not_run = self.pairs(&mut leases, name, advisory).await;
        let how = "pg_advisory_lock and unlock, in memory, by simple queries in a session for each client";
        leases.contenders.push(Contender { name, durable: false, how, not_run });
        leases.judge();
        leases
    }

    fn with_postgres(&self) -> Result<()> {
        match (self.postgres, PrivatePostgres::is_installed()) {
            (true, true) => Ok(()),
            (true, false) => Err(Error::other("PostgreSQL is not installed (`make deps` installs it)")),
            (false, _) => Err(Error::other("PostgreSQL was to be left out")),
        }
    }

    /// Gives what could not be measured, and why.
    async fn pairs<S: Service>(&self, leases: &mut Leases, name: &'static str, service: Result<S>) -> Vec<String> {
        match service {
            Ok(service) => self.pairs_of(leases, name, &service).await,
            Err(error) => vec![error.to_string()],
        }
    }

    async fn pairs_of<S: Service>(&self, leases: &mut Leases, name: &'static str, service: &S) -> Vec<String> {
        let (mut not_run, mut first) = (Vec::new(), 0);
        for kind in [Kind::Uncontended, Kind::Contended] {
            for clients in CLIENTS {
                say(&format!("{name}, {} at {clients}", kind.name()));
                match pairs::measure(service, Run { contender: name, kind, clients, first, time: self.time() }).await {
                    Ok(pairs) => leases.pairs.push(pairs),
                    Err(error) => not_run.push(format!("{} at {clients}: {error}", kind.name())),
                }
                // Others for each run: one that failed may have left some that are held.
                first += kind.locks(clients);
            }
        }
        not_run
    }

    /// What others cannot do, or are not asked for, is measured of ours alone.
    async fn ours(&self, leases: &mut Leases, name: &'static str, on_postgres: bool) -> Vec<String> {
        if on_postgres && let Err(error) = self.with_postgres() {
            return vec![error.to_string()];
        }
        let start = async |environments| {
            let postgres = if on_postgres { Some(PrivatePostgres::start_durable()) } else { None };
            Target::start(&self.binary, &self.root, postgres, environments).await
        };
        let store = if on_postgres { "postgres" } else { "sqlite" };
        say(&format!("{name}, environments to hold"));
        let locks = [Kind::Uncontended, Kind::Contended].iter().flat_map(|kind| CLIENTS.map(|clients| kind.locks(clients))).sum();
        let target = start(locks).await;
        let mut not_run = self.pairs_of(leases, name, &target).await;
        let mut missed = |what: &str, error: Error| not_run.push(format!("{what}: {error}"));
        say(&format!("{name}, from one to the next"));
        match handover::measure(&target, store, self.either(2, 30), self.either(50, 1000), self.time()).await {
            Ok(handover) => leases.handovers.push(handover),
            Err(error) => missed("from one to the next", error),
        }
        say(&format!("{name}, after an end that its holder did not bring about"));
        match expiry::measure(&target, store, self.either(3, 20)).await {
            Ok(expiry) => leases.expiries.push(expiry),
            Err(error) => missed("after an expiry", error),
        }
        drop(target);
        // A store of its own, in which nobody ever held anything.
        let tickets = self.either(5_000, 50_000);
        say(&format!("{name}, {tickets} tickets"));
        match queue::measure(&start(1).await, store, tickets).await {
            Ok(queue) => leases.queues.push(queue),
            Err(error) => missed("a long queue", error),
        }
        not_run
    }
}
