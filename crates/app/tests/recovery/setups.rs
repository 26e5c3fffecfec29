//! The setup script: once for each version, before anything else, whatever is lost between.

use serde_json::json;
use stead_app::Outcome;
use stead_app::environments::{EnvironmentEdit, NewEnvironment};
use stead_domain::environment::{Environment, EnvironmentStatus};
use stead_domain::ids::EnvironmentId;
use stead_domain::process::ProcessPurpose;
use stead_domain::{Code, Result};

use crate::life::{Life, World};
use crate::memory::{Call, Mishap};

fn environment_of(outcome: Outcome<Environment>) -> Environment {
    match outcome {
        Outcome::New(environment) => environment,
        Outcome::Again(reply) => serde_json::from_slice(&reply.body).unwrap(),
    }
}

impl Life {
    fn with_setup(&self) -> EnvironmentId {
        let new: NewEnvironment = serde_json::from_value(json!({"name": "web", "spec": {"setup": {"script": "make"}}})).unwrap();
        environment_of(self.run(async { self.app.create_environment(&self.enter(None).await, new).await }).unwrap()).id
    }

    fn set_up(&self, id: EnvironmentId, again: bool) -> Result<Environment> {
        self.run(async { self.app.set_up_environment(&self.enter(None).await, id, again).await }).map(environment_of)
    }

    fn edit(&self, id: EnvironmentId, spec: serde_json::Value) {
        let edit = EnvironmentEdit { spec: Some(spec), ..EnvironmentEdit::default() };
        self.run(async { self.app.update_environment(&self.enter(None).await, id, None, edit).await }).unwrap();
    }

    fn seen(&self, id: EnvironmentId) -> Environment {
        self.run(async { self.app.get_environment(&self.enter(None).await, id).await }).unwrap()
    }
}

#[test]
fn it_runs_once_for_each_version_and_before_anything_else() {
    let world = World::sqlite();
    let life = world.live();
    let place = &world.cloud.place;
    let id = life.with_setup();
    place.setups.lock().unwrap().extend([0, 0, 0, 0]);
    life.start_process(&world, id, &["print", "a"], None).unwrap();
    life.start_process(&world, id, &["print", "b"], None).unwrap();
    let started = place.started();
    assert_eq!(started.len(), 3);
    let setup = life.process(id, started[0]);
    assert_eq!((setup.purpose, setup.argv), (Some(ProcessPurpose::Setup), ["sh", "-eu", "-c", "make"].map(str::to_owned).to_vec()));
    assert_eq!(life.process(id, started[1]).purpose, None);
    life.edit(id, json!({"env": {"A": "1"}}));
    assert_eq!(place.told(), [(id, 2)]);
    life.start_process(&world, id, &["print", "c"], None).unwrap();
    assert_eq!(place.started().len(), 5);
    life.set_up(id, false).unwrap();
    assert_eq!(place.started().len(), 5, "done is done");
    life.set_up(id, true).unwrap();
    assert_eq!(place.started().len(), 6);
    life.end();
}

#[test]
fn two_callers_at_once_run_it_once_and_both_wait_for_it() {
    let world = World::sqlite();
    let life = world.live();
    let place = &world.cloud.place;
    let id = life.with_setup();
    let first = life.spawn_process(&world, id, &["print", "a"], "a");
    let second = life.spawn_process(&world, id, &["print", "b"], "b");
    let until = |count: usize| {
        for _ in 0..500 {
            if place.started().len() >= count {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{} were started", place.started().len());
    };
    until(1);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(place.started().len(), 1, "the others wait");
    place.exit(place.started()[0], 0);
    life.run(first).unwrap().unwrap();
    life.run(second).unwrap().unwrap();
    assert_eq!(place.started().len(), 3);
    life.end();
}

#[test]
fn one_that_fails_makes_the_environment_fail_and_says_its_last_lines() {
    let world = World::sqlite();
    let life = world.live();
    let place = &world.cloud.place;
    let id = life.with_setup();
    place.setups.lock().unwrap().extend([3, 0]);
    let error = life.start_process(&world, id, &["print", "a"], None).unwrap_err();
    assert_eq!(error.code(), Code::Conflict);
    assert!(error.message().contains("exit code 3") && error.message().ends_with("one\ntwo"), "{error}");
    let failed = life.seen(id);
    assert_eq!(failed.status, EnvironmentStatus::Failed);
    assert!(failed.last_error.unwrap().contains("one\ntwo"));
    life.start_process(&world, id, &["print", "a"], None).unwrap_err();
    assert_eq!(place.started().len(), 1, "it is not tried by itself");
    assert_eq!(life.set_up(id, false).unwrap().status, EnvironmentStatus::Ready);
    life.start_process(&world, id, &["print", "a"], None).unwrap();
    assert_eq!(life.seen(id).last_error, None);
    life.end();
}

#[test]
fn a_server_that_dies_in_the_middle_leaves_it_to_the_next() {
    let world = World::sqlite();
    let life = world.live();
    let place = &world.cloud.place;
    let id = life.with_setup();
    place.plan(Call::Further, Mishap::HangBefore);
    let waiting = life.spawn_process(&world, id, &["print", "a"], "a");
    life.run(place.until_hung());
    life.crash();
    drop(waiting);
    let setup = place.started()[0];
    let next = world.live();
    next.run(async { next.app.start_background() });
    place.exit(setup, 0);
    next.start_process(&world, id, &["print", "a"], None).unwrap();
    assert_eq!(place.started().len(), 2, "the script ran once");
    next.end();
}

#[test]
fn one_that_fails_after_its_server_died_is_known_to_the_next() {
    let world = World::sqlite();
    let life = world.live();
    let place = &world.cloud.place;
    let id = life.with_setup();
    place.plan(Call::Further, Mishap::HangBefore);
    let waiting = life.spawn_process(&world, id, &["print", "a"], "a");
    life.run(place.until_hung());
    life.crash();
    drop(waiting);
    place.exit(place.started()[0], 7);
    let next = world.live();
    next.run(async { next.app.start_background() });
    for _ in 0..500 {
        if next.seen(id).status == EnvironmentStatus::Failed {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(next.seen(id).last_error.unwrap().contains("exit code 7"));
    next.end();
}
