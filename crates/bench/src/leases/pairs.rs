//! Many who each take a lock and let go of it, again and again: each its own, or all of them the same one.

use std::cell::Cell;
use std::io::Result;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;

use super::session::{Service, Session};
use crate::places::samples::Samples;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Each has its own.
    Uncontended,
    /// All want the same one.
    Contended,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Uncontended => "uncontended",
            Self::Contended => "contended",
        }
    }

    /// How many locks so many need.
    pub fn locks(self, clients: usize) -> usize {
        if self == Self::Contended { 1 } else { clients }
    }
}

/// What is to be done.
pub struct Run {
    pub contender: &'static str,
    pub kind: Kind,
    pub clients: usize,
    /// The number of the first lock.
    pub first: usize,
    pub time: Duration,
}

/// One line of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Pairs {
    pub contender: &'static str,
    pub kind: Kind,
    pub clients: usize,
    pub pairs: usize,
    pub per_second: f64,
    /// From the request to the reply that it was let go, with all the waiting between.
    pub p50_milliseconds: f64,
    pub p99_milliseconds: f64,
    /// From the request of one to let go to the reply of another that it has it. Only of those who share one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover_p50_milliseconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover_p99_milliseconds: Option<f64>,
}

/// What all see of the one lock.
#[derive(Default)]
struct Seen {
    held: Cell<bool>,
    /// Who let go of it last, and when it began to.
    released: Cell<Option<(usize, Instant)>>,
}

#[derive(Default)]
struct Taken {
    /// When a pair was done, and what it took.
    pairs: Vec<(Instant, Duration)>,
    handovers: Samples,
}

/// Lets so many do it for so long, after a while that does not count. Those who wait at the end are served as well, and counted with the time
/// that it takes.
pub async fn measure<S: Service>(service: &S, run: Run) -> Result<Pairs> {
    let Run { contender, kind, clients, first, time } = run;
    let mut sessions = Vec::with_capacity(clients);
    for client in 0..clients {
        sessions.push(service.session(first + client % kind.locks(clients)).await?);
    }
    let seen = Rc::new(Seen::default());
    let begin = Instant::now() + time / 5;
    // One that fails ends all: the others may wait for what it holds.
    let mut tasks = JoinSet::new();
    for (client, session) in sessions.into_iter().enumerate() {
        let seen = if kind == Kind::Contended { Rc::clone(&seen) } else { Rc::default() };
        tasks.spawn_local(one(client, session, seen, begin, begin + time));
    }
    let mut all = Taken::default();
    while let Some(taken) = tasks.join_next().await {
        let taken = taken.map_err(std::io::Error::other)??;
        all.pairs.extend(taken.pairs);
        all.handovers.extend(taken.handovers);
    }
    let last = all.pairs.iter().map(|(done, _)| *done).max().unwrap_or(begin);
    let mut times = Samples::default();
    all.pairs.iter().for_each(|(_, took)| times.add(*took));
    let handover = |share| (kind == Kind::Contended && all.handovers.len() > 0).then(|| all.handovers.at(share));
    Ok(Pairs {
        contender,
        kind,
        clients,
        pairs: times.len(),
        per_second: times.len() as f64 / (last - begin).as_secs_f64().max(f64::EPSILON),
        p50_milliseconds: times.at(0.50),
        p99_milliseconds: times.at(0.99),
        handover_p50_milliseconds: handover(0.50),
        handover_p99_milliseconds: handover(0.99),
    })
}

async fn one<S: Session>(client: usize, mut session: S, seen: Rc<Seen>, begin: Instant, end: Instant) -> Result<Taken> {
    let mut taken = Taken::default();
    loop {
        let asked = Instant::now();
        if asked >= end {
            return Ok(taken);
        }
        session.acquire().await?;
        let got = Instant::now();
        // All of us are one thread: whoever is told that it holds it while another has not begun to let go has found a broken lock.
        assert!(!seen.held.replace(true), "two hold the same lock");
        // Who gets it again at once has handed nothing over.
        if let Some((_, released)) = seen.released.take().filter(|(by, _)| got >= begin && *by != client) {
            taken.handovers.add(got - released);
        }
        seen.held.set(false);
        seen.released.set(Some((client, Instant::now())));
        session.release().await?;
        let done = Instant::now();
        if done >= begin {
            taken.pairs.push((done, done - asked));
        }
    }
}
