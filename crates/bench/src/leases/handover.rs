//! From one who lets go to the next in a queue, beside what the store takes for a commit.

use std::cell::Cell;
use std::io::{Error, Result};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::chain::hand_on;
use super::commit::commits;
use super::stead::{Drawn, LONG, Target};
use crate::load::{Measured, Operation};
use crate::places::samples::Samples;
use crate::report::Goal;

const WAITING: usize = 64;

#[derive(Serialize)]
pub struct Handover {
    pub store: &'static str,
    /// How many wait when the first lets go.
    pub waiting: usize,
    pub samples: usize,
    pub p50_milliseconds: f64,
    pub p99_milliseconds: f64,
    /// The smallest change of the store itself, by one who is alone with it.
    pub commit_p50_milliseconds: f64,
    pub commit_p99_milliseconds: f64,
    /// The smallest change over the API for which nobody holds anything: other tags.
    pub patch_p50_milliseconds: f64,
    pub patch_p99_milliseconds: f64,
}

pub async fn measure(target: &Target, store: &'static str, rounds: usize, count: usize, time: Duration) -> Result<Handover> {
    let (mut times, mut own) = (Samples::default(), Samples::default());
    // Before and after, so that a disk that changes its mind in between is seen by both.
    commits(&target.store(), count, &mut own).await;
    let environment = target.create(&json!({"name": "handed-on"})).await?;
    let patch = patches(target, store, environment.clone(), time).await;
    let mut holders = Vec::new();
    for _ in 0..=WAITING {
        holders.push(target.holder(&environment).await?);
    }
    for _ in 0..rounds {
        let mut all = holders.into_iter();
        let mut first = all.next().ok_or_else(|| Error::other("nobody is there"))?;
        let Drawn::Held = first.draw(LONG).await? else { return Err(Error::other("somebody holds it already")) };
        let mut waiting = Vec::new();
        for mut holder in all {
            let Drawn::Waits(ticket) = holder.draw(LONG).await? else { return Err(Error::other("nobody holds it any more")) };
            waiting.push((holder, ticket.id));
        }
        let (again, taken) = hand_on(first, waiting).await?;
        holders = again;
        times.extend(taken);
    }
    commits(&target.store(), count, &mut own).await;
    Ok(Handover {
        store,
        waiting: WAITING,
        samples: times.len(),
        p50_milliseconds: times.at(0.50),
        p99_milliseconds: times.at(0.99),
        commit_p50_milliseconds: own.at(0.50),
        commit_p99_milliseconds: own.at(0.99),
        patch_p50_milliseconds: patch.p50_milliseconds,
        patch_p99_milliseconds: patch.p99_milliseconds,
    })
}

async fn patches(target: &Target, store: &'static str, environment: String, time: Duration) -> Measured {
    let (address, key) = target.door();
    let alone = crate::load::Target { address, key, store, environments: 1, ids: vec![environment], serial: Rc::new(Cell::new(0)) };
    Rc::new(alone).measure(Operation::Patch, 1, time).await
}

impl Handover {
    /// The slowest are held against the slowest: what a disk does now and then it does to both.
    pub fn goal(&self) -> Goal {
        let name = format!("hand-over p99 with {} waiting, {}, against the store's own commit p99", self.waiting, self.store);
        Goal::below(name, 3.0, "x", self.p99_milliseconds / self.commit_p99_milliseconds)
    }

    pub fn said(&self) -> String {
        format!(
            "{}: {} hand-overs with {} waiting, p50 {:.2} ms, p99 {:.2} ms ({:.1}x a commit's p50); a commit of the store p50 {:.2} ms, p99 {:.2} ms; a PATCH of tags p50 {:.2} ms, p99 {:.2} ms",
            self.store,
            self.samples,
            self.waiting,
            self.p50_milliseconds,
            self.p99_milliseconds,
            self.p99_milliseconds / self.commit_p50_milliseconds,
            self.commit_p50_milliseconds,
            self.commit_p99_milliseconds,
            self.patch_p50_milliseconds,
            self.patch_p99_milliseconds,
        )
    }
}
