//! Delete, with something going wrong at each step.

use stead_app::environments::NewEnvironment;
use stead_domain::environment::CleanupStatus;
use stead_domain::environment::EnvironmentStatus::{Destroyed, Destroying, Ready};

use crate::cloud::{CRASHES, FAILURES, Fault, Step};
use crate::life::{World, record_of};

#[test]
fn a_removal_that_fails_frees_the_name_at_once_and_is_finished_later() {
    let world = World::sqlite();
    let life = world.live();
    for (number, fault) in FAILURES.into_iter().enumerate() {
        let name = format!("stubborn-{number}");
        let doomed = life.created(&name, None);
        world.cloud.plan(Step::Destroy, fault);
        let answered = life.delete(doomed.id).unwrap();
        assert_eq!((answered.status, answered.cleanup_status), (Destroying, CleanupStatus::Failed));
        assert!(answered.last_error.is_some());
        let next = life.created(&name, None);
        assert_ne!((next.id, next.sandbox_id), (doomed.id, doomed.sandbox_id));
        // Repeated, it goes on from where it is.
        assert_eq!(life.delete(doomed.id).unwrap().status, Destroyed);
        assert_eq!(life.delete(doomed.id).unwrap().status, Destroyed);
        assert_eq!(life.get(next.id).status, Ready);
    }
    life.settle();
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn a_crash_at_any_step_ends_in_a_tombstone() {
    let world = World::sqlite();
    for (number, crash) in CRASHES.into_iter().enumerate() {
        let life = world.live();
        let doomed = life.created(&format!("doomed-{number}"), None);
        world.cloud.plan(Step::Destroy, crash);
        drop(life.start_delete(doomed.id));
        life.run(world.cloud.until_hung());
        assert_eq!(life.get(doomed.id).status, Destroying);
        life.crash();

        let life = world.live();
        world.cloud.plan(Step::Destroy, Fault::Unreachable);
        life.pass();
        assert_eq!(life.get(doomed.id).status, Destroying);
        life.settle();
        let gone = life.get(doomed.id);
        assert_eq!((gone.status, gone.cleanup_status), (Destroyed, CleanupStatus::Succeeded), "{crash:?}");
        life.assert_at_rest(&world.cloud);
        life.end();
    }
}

#[test]
fn a_removal_while_the_creation_is_under_way_wins() {
    let world = World::sqlite();
    for (number, crash) in CRASHES.into_iter().enumerate() {
        let name = format!("overtaken-{number}");
        let life = world.live();
        world.cloud.plan(Step::Create, crash);
        drop(life.start_create(&name, Some(&name)));
        life.run(world.cloud.until_hung());
        let id = life.named(&name)[0].id;
        let removal = life.start_delete(id);
        while life.named(&name)[0].status != Destroying {
            std::thread::yield_now();
        }
        life.crash();
        drop(removal);

        let life = world.live();
        life.settle();
        assert_eq!(life.get(id).status, Destroyed);
        life.assert_at_rest(&world.cloud);
        assert_eq!(
            life.create(&name, Some(&name)).unwrap_err().code(),
            stead_domain::Code::EnvironmentDestroyed,
            "what the request made is gone, and it makes no second one"
        );
        life.end();
    }
}

#[test]
fn a_shared_sandbox_goes_with_its_last_environment_whatever_fails_in_between() {
    let world = World::sqlite();
    let life = world.live();
    let first = life.created("first", None);
    let second = life.run(async {
        let entered = life.enter(None).await;
        let new = NewEnvironment { name: Some("second".to_owned()), sandbox_id: Some(first.sandbox_id), ..NewEnvironment::default() };
        record_of(life.app.create_environment(&entered, new).await.unwrap())
    });
    assert_eq!(second.sandbox_id, first.sandbox_id);
    assert_eq!(life.delete(first.id).unwrap().cleanup_status, CleanupStatus::Skipped);
    assert!(world.cloud.things().contains_key(&first.sandbox_id));
    world.cloud.plan(Step::Destroy, Fault::HangAfter);
    drop(life.start_delete(second.id));
    life.run(world.cloud.until_hung());
    life.crash();

    let life = world.live();
    life.settle();
    assert_eq!((life.get(first.id).status, life.get(second.id).status), (Destroyed, Destroyed));
    assert!(!world.cloud.things().contains_key(&first.sandbox_id));
    life.assert_at_rest(&world.cloud);
    life.end();
}
