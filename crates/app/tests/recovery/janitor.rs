//! What the rows say against what the provider has, in both directions.

use std::collections::HashMap;

use stead_domain::environment::EnvironmentStatus::{Destroyed, Orphaned, Ready};
use stead_domain::ids::SandboxId;

use crate::cloud::{Fault, Step};
use crate::life::World;

#[test]
fn a_stranger_is_removed_at_its_second_sighting_and_not_before() {
    let world = World::sqlite();
    let life = world.live();
    let stranger = SandboxId::new(&world.context);
    world.cloud.put(stranger);
    let mut sightings = HashMap::new();
    life.run(life.app.sweep(&mut sightings));
    assert!(world.cloud.things().contains_key(&stranger));
    // A list that cannot be had is no sighting, and takes none away.
    world.cloud.plan(Step::List, Fault::Unreachable);
    life.run(life.app.sweep(&mut sightings));
    assert!(world.cloud.things().contains_key(&stranger));
    life.run(life.app.sweep(&mut sightings));
    assert!(!world.cloud.things().contains_key(&stranger));
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn a_sighting_of_long_ago_does_not_count() {
    let world = World::sqlite();
    let life = world.live();
    let stranger = SandboxId::new(&world.context);
    let mut sightings = HashMap::new();
    world.cloud.put(stranger);
    life.run(life.app.sweep(&mut sightings));
    world.cloud.lose(stranger);
    life.run(life.app.sweep(&mut sightings));
    world.cloud.put(stranger);
    life.run(life.app.sweep(&mut sightings));
    assert!(world.cloud.things().contains_key(&stranger), "two sightings in a row are needed");
    // Nor does one by a server that ended.
    life.end();
    let life = world.live();
    life.run(life.app.sweep(&mut HashMap::new()));
    assert!(world.cloud.things().contains_key(&stranger));
    life.end();
}

#[test]
fn what_has_a_live_row_is_never_touched() {
    let world = World::sqlite();
    let life = world.live();
    let ready = life.created("ready", None);
    world.cloud.plan(Step::Create, Fault::HangAfter);
    drop(life.start_create("under-way", None));
    life.run(world.cloud.until_hung());
    let under_way = life.named("under-way")[0].sandbox;
    let orphan = life.created("orphan", None);
    world.cloud.lose(orphan.sandbox_id);
    let mut sightings = HashMap::new();
    for _ in 0..4 {
        life.run(life.app.sweep(&mut sightings));
    }
    assert_eq!(life.get(orphan.id).status, Orphaned);
    let things = world.cloud.things();
    assert!(things.contains_key(&ready.sandbox_id) && things.contains_key(&under_way));
    life.crash();
    let life = world.live();
    life.settle();
    assert_eq!(life.named("under-way")[0].status, Ready);
    assert_eq!(life.get(ready.id).status, Ready);
    life.assert_legal_transitions();
    life.end();
}

#[test]
fn what_is_lost_is_orphaned_at_the_second_sighting_and_adopted_when_it_is_back() {
    let world = World::sqlite();
    let life = world.live();
    let lost = life.created("lost", None);
    let mut sightings = HashMap::new();
    for by_reconcile in [false, true] {
        world.cloud.lose(lost.sandbox_id);
        life.run(life.app.sweep(&mut sightings));
        assert_eq!(life.get(lost.id).status, Ready);
        life.run(life.app.sweep(&mut sightings));
        let orphan = life.get(lost.id);
        assert_eq!(orphan.status, Orphaned);
        assert!(orphan.last_error.is_some());
        life.run(life.app.sweep(&mut sightings));
        assert_eq!(life.reconcile(lost.id).unwrap().status, Orphaned, "it is still gone");
        world.cloud.put(lost.sandbox_id);
        if by_reconcile {
            assert_eq!(life.reconcile(lost.id).unwrap().status, Ready);
        } else {
            life.run(life.app.sweep(&mut sightings));
        }
        let adopted = life.get(lost.id);
        assert_eq!((adopted.status, adopted.last_error), (Ready, None));
    }
    // One that reconcile finds missing is an orphan at once: somebody asked, and this is the answer.
    world.cloud.lose(lost.sandbox_id);
    assert_eq!(life.reconcile(lost.id).unwrap().status, Orphaned);
    // And an orphan can be deleted, and its name is free.
    assert_eq!(life.delete(lost.id).unwrap().status, Destroyed);
    life.created("lost", None);
    life.settle();
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn a_late_success_of_a_call_that_was_given_up_is_found_and_removed() {
    let world = World::sqlite();
    let life = world.live();
    world.cloud.plan(Step::Create, Fault::Unreachable);
    assert!(life.create("late", None).is_err());
    let sandbox = life.named("late")[0].sandbox;
    // The provider carries the first call out after all, when its row is a tombstone.
    world.cloud.put(sandbox);
    life.settle();
    assert!(!world.cloud.things().contains_key(&sandbox));
    life.assert_at_rest(&world.cloud);
    life.end();
}
