//! Sandboxes that are made before their rows, with something going wrong at each step.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use stead_app::Outcome;
use stead_domain::Code;
use stead_domain::environment::EnvironmentStatus::{Destroyed, Ready};

use crate::cloud::{CRASHES, Fault, Step};
use crate::life::World;

fn at_once() -> World {
    let world = World::sqlite();
    world.cloud.at_once.store(true, Ordering::Relaxed);
    world
}

#[test]
fn a_crash_before_the_row_leaves_nothing_and_the_same_request_makes_it() {
    let world = at_once();
    for (number, crash) in CRASHES.into_iter().enumerate() {
        let name = format!("cut-off-{number}");
        let life = world.live();
        world.cloud.plan(Step::Create, crash);
        drop(life.start_create(&name, Some(&name)));
        life.run(world.cloud.until_hung());
        assert!(life.named(&name).is_empty(), "{crash:?}");
        life.crash();

        let life = world.live();
        let first = life.created(&name, Some(&name));
        assert_eq!(first.status, Ready);
        let Outcome::Again(reply) = life.create(&name, Some(&name)).unwrap() else { panic!("the reply was not kept") };
        assert_eq!((reply.status, serde_json::to_vec(&first).unwrap()), (201, reply.body));
        life.settle();
        life.assert_at_rest(&world.cloud);
        life.assert_legal_transitions();
        life.end();
    }
}

#[test]
fn what_is_being_made_is_no_stranger_however_long_it_takes() {
    let world = at_once();
    let life = world.live();
    let before = world.cloud.things();
    world.cloud.plan(Step::Create, Fault::HangAfter);
    drop(life.start_create("slow", None));
    life.run(world.cloud.until_hung());
    let mut sightings = HashMap::new();
    for _ in 0..4 {
        life.run(life.app.sweep(&mut sightings));
    }
    assert_eq!(world.cloud.things().len(), before.len() + 1);
    life.crash();
    let life = world.live();
    life.settle();
    assert_eq!(world.cloud.things(), before);
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn what_gets_no_row_is_removed_at_once() {
    let world = at_once();
    let life = world.live();
    life.created("taken", Some("key"));
    let before = world.cloud.things();
    assert_eq!(life.create("taken", None).unwrap_err().code(), Code::AlreadyExists);
    assert!(matches!(life.create("taken", Some("key")).unwrap(), Outcome::Again(_)));
    assert_eq!(world.cloud.things(), before);
    // And if that fails, a little later.
    world.cloud.plan(Step::Destroy, Fault::Unreachable);
    assert_eq!(life.create("taken", None).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(world.cloud.things().len(), before.len() + 1);
    life.settle();
    assert_eq!(world.cloud.things(), before);
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn one_that_cannot_be_made_is_tried_with_a_row_that_says_why() {
    let world = at_once();
    let life = world.live();
    for fault in [Fault::Refuse, Fault::LoseReply] {
        let name = format!("{fault:?}").to_lowercase();
        world.cloud.plan(Step::Create, fault);
        let made = life.created(&name, None);
        assert_eq!((made.status, made.last_error), (Ready, None));
    }
    world.cloud.plan(Step::Create, Fault::Refuse);
    world.cloud.plan(Step::Create, Fault::Refuse);
    assert_eq!(life.create("never", Some("never")).unwrap_err().code(), Code::ProviderFailed);
    assert_eq!(life.named("never")[0].status, Destroyed);
    assert_eq!(life.created("never", Some("never")).status, Ready);
    life.settle();
    life.assert_at_rest(&world.cloud);
    life.end();
}
