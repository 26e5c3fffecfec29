//! Everything at once: random requests, random faults, random crashes, from a seed that reproduces them. After each storm the world comes
//! to rest, and what was acknowledged is still true.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use stead_app::Outcome;
use stead_domain::environment::EnvironmentStatus::{Destroyed, Ready};
use stead_domain::ids::EnvironmentId;
use stead_testing::PrivatePostgres;
use tokio::task::JoinHandle;

use crate::cloud::{Fault, Step};
use crate::life::{Life, World, record_of};

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// What callers were told.
#[derive(Default)]
struct Told {
    /// By key, which is also the name.
    created: BTreeMap<String, EnvironmentId>,
    deletion_asked: BTreeSet<EnvironmentId>,
    deleted: BTreeSet<EnvironmentId>,
}

type Creation = (String, JoinHandle<stead_domain::Result<Outcome<stead_domain::environment::Environment>>>);

fn note(told: &mut Told, name: String, outcome: stead_domain::Result<Outcome<stead_domain::environment::Environment>>) {
    if let Ok(outcome) = outcome {
        let id = record_of(outcome).id;
        let first = *told.created.entry(name.clone()).or_insert(id);
        assert_eq!(first, id, "`{name}` was answered with two different environments");
    }
}

fn storm(world: &World, seed: u64, rounds: usize) {
    let mut dice = Dice(seed);
    let mut told = Told::default();
    let mut attempts = 0;
    for _ in 0..rounds {
        let life = world.live();
        let mut creations: Vec<Creation> = Vec::new();
        let mut deletions: Vec<(EnvironmentId, JoinHandle<_>)> = Vec::new();
        let mut sightings = HashMap::new();
        for _ in 0..dice.roll(12) {
            if dice.roll(3) == 0 {
                let step = [Step::Create, Step::Destroy, Step::Inspect, Step::List][dice.roll(4) as usize];
                let fault = [Fault::Refuse, Fault::Unreachable, Fault::LoseReply, Fault::HangBefore, Fault::HangAfter];
                world.cloud.plan(step, fault[dice.roll(5) as usize]);
            }
            match dice.roll(8) {
                0..=3 => {
                    // Sometimes a repetition of one that was made, sometimes of one that nobody knows about.
                    attempts += dice.roll(2);
                    let name = format!("e{}", if dice.roll(4) == 0 { dice.roll(attempts + 1) } else { attempts });
                    creations.push((name.clone(), life.start_create(&name, Some(&name))));
                }
                4 | 5 => {
                    let known: Vec<EnvironmentId> = told.created.values().copied().collect();
                    if !known.is_empty() {
                        let id = known[dice.roll(known.len() as u64) as usize];
                        told.deletion_asked.insert(id);
                        deletions.push((id, life.start_delete(id)));
                    }
                }
                // A pass or a sweep may hang at the provider; then only a crash ends it.
                6 if !world.cloud.has_plans() => life.pass(),
                _ if !world.cloud.has_plans() => life.run(life.app.sweep(&mut sightings)),
                _ => {}
            }
        }
        // What has come to an end is heard; the rest dies with the server.
        for (name, creation) in creations {
            if dice.roll(2) == 0 && creation.is_finished() {
                note(&mut told, name, life.run(creation).unwrap());
            }
        }
        for (id, deletion) in deletions {
            if deletion.is_finished() && life.run(deletion).unwrap().is_ok_and(|record| record.status == Destroyed) {
                told.deleted.insert(id);
            }
        }
        life.crash();
    }
    world.cloud.forget_plans();
    let life = world.live();
    life.settle();
    judge(&life, world, &mut told, attempts);
    life.end();
}

fn judge(life: &Life, world: &World, told: &mut Told, attempts: u64) {
    // What refused meanwhile is asked once more.
    for record in life.records() {
        if record.status != Ready && record.status.is_live() {
            life.reconcile(record.id).unwrap();
        }
    }
    life.assert_at_rest(&world.cloud);
    for (name, id) in &told.created {
        let status = life.get(*id).status;
        if told.deleted.contains(id) {
            assert_eq!(status, Destroyed, "`{name}` was deleted");
        } else if !told.deletion_asked.contains(id) {
            assert_eq!(status, Ready, "`{name}` was acknowledged");
        }
    }
    // Repeated now, every request of a name has the outcome that it had, and none makes a second one beside it.
    for number in 0..=attempts {
        let name = format!("e{number}");
        if let Ok(outcome) = life.create(&name, Some(&name)) {
            note(told, name.clone(), Ok(outcome));
        }
        assert!(life.named(&name).iter().filter(|record| record.status.is_live()).count() <= 1, "`{name}` is there twice");
    }
    life.settle();
    life.assert_at_rest(&world.cloud);
}

/// More of it when the size that is proved is asked for.
fn storms() -> u64 {
    if std::env::var_os("STEAD_PROVE").is_some() { 300 } else { 12 }
}

#[test]
fn storms_on_sqlite() {
    for seed in 0..storms() {
        storm(&World::sqlite(), seed, 8);
    }
}

#[test]
fn storms_on_postgres() {
    let server = PrivatePostgres::start();
    for seed in 0..storms() / 3 {
        storm(&World::postgres(&server, &format!("storm{seed}")), 1000 + seed, 8);
    }
}
