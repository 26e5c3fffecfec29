//! Sandboxes of no environment are finished and removed like the others.

use stead_app::identity::NewProject;
use stead_app::sandboxes::SandboxRequest;
use stead_app::{Entered, Outcome};
use stead_domain::Code;
use stead_domain::ids::SandboxId;
use stead_domain::sandbox::{Sandbox, SandboxStatus};

use crate::cloud::{CRASHES, FAILURES, Fault, Step};
use crate::life::{Life, World, enter};

fn create(life: &Life, key: Option<&str>) -> stead_domain::Result<Sandbox> {
    let outcome = life.run(async { life.app.create_sandbox(&life.enter(key).await, SandboxRequest::default()).await })?;
    Ok(match outcome {
        Outcome::New(sandbox) => sandbox,
        Outcome::Again(reply) => serde_json::from_slice(&reply.body).unwrap(),
    })
}

fn start_create(life: &Life, world: &World, key: &'static str) {
    let (app, context) = (life.app.clone(), world.context.clone());
    drop(life.start(async move { app.create_sandbox(&enter(&app, &context, Some(key)).await, SandboxRequest::default()).await.map(drop) }));
}

fn all(life: &Life) -> Vec<Sandbox> {
    let page = stead_domain::page::PageRequest { limit: 200, after: None };
    life.run(async { life.app.list_sandboxes(&life.enter(None).await, page).await }).unwrap().items
}

fn delete(life: &Life, id: SandboxId) -> stead_domain::Result<Sandbox> {
    life.run(async { life.app.delete_sandbox(&life.enter(None).await, id).await })
}

#[test]
fn a_creation_that_is_cut_off_is_finished_with_or_without_a_repetition() {
    let world = World::sqlite();
    for crash in CRASHES {
        for repeated in [false, true] {
            let key: &'static str = if repeated { "repeated" } else { "alone" };
            let life = world.live();
            let before = all(&life).len();
            world.cloud.plan(Step::Create, crash);
            start_create(&life, &world, key);
            life.run(world.cloud.until_hung());
            life.crash();

            let life = world.live();
            if repeated {
                let made = create(&life, Some(key)).unwrap();
                assert_eq!(made.status, SandboxStatus::Ready);
                assert_eq!(create(&life, Some(key)).unwrap().id, made.id);
            }
            life.settle();
            assert_eq!(all(&life).len(), before + 1, "{crash:?}");
            life.assert_at_rest(&world.cloud);
            let newest = all(&life)[0].id;
            assert_eq!(delete(&life, newest).unwrap().status, SandboxStatus::Destroyed);
            if repeated {
                // The key is remembered for a day; the next round needs it fresh.
                world.clock.advance(std::time::Duration::from_secs(25 * 3600));
            }
            life.end();
        }
    }
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let world = World::sqlite();
    let life = world.live();
    let before = all(&life).len();
    for fault in FAILURES {
        world.cloud.plan(Step::Create, fault);
        assert!(create(&life, Some("key")).is_err());
        assert_eq!(all(&life).len(), before, "{fault:?}");
    }
    world.cloud.plan(Step::Create, Fault::Refuse);
    world.cloud.plan(Step::Destroy, Fault::Unreachable);
    assert_eq!(create(&life, Some("key")).unwrap_err().code(), Code::ProviderFailed);
    assert_eq!(all(&life)[0].status, SandboxStatus::Destroying);
    life.settle();
    assert_eq!(all(&life).len(), before);
    assert_eq!(create(&life, Some("key")).unwrap().status, SandboxStatus::Ready);
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn a_removal_that_fails_or_is_cut_off_is_finished_later() {
    let world = World::sqlite();
    for fault in FAILURES.into_iter().chain(CRASHES) {
        let life = world.live();
        let doomed = create(&life, None).unwrap();
        world.cloud.plan(Step::Destroy, fault);
        let (app, context) = (life.app.clone(), world.context.clone());
        let removal = life.start(async move { app.delete_sandbox(&enter(&app, &context, None).await, doomed.id).await });
        if CRASHES.contains(&fault) {
            life.run(world.cloud.until_hung());
        } else {
            assert!(life.run(removal).unwrap().is_err());
        }
        life.crash();

        let life = world.live();
        life.settle();
        assert_eq!(life.sandbox(doomed.id).status, SandboxStatus::Destroyed, "{fault:?}");
        life.assert_at_rest(&world.cloud);
        life.end();
    }
}

#[test]
fn a_deleted_project_takes_everything_with_it_whatever_fails_or_ends_in_between() {
    let world = World::sqlite();
    let in_project = |life: &Life, handle: &'static str| -> Entered {
        life.run(async {
            let operator = life.enter(None).await;
            life.app.create_project(&operator.caller, NewProject { handle: handle.to_owned(), name: None }).await.unwrap();
            let arrival =
                stead_app::identity::access::Arrival { source: "test".to_owned(), request_id: operator.caller.request_id, lease: None };
            let access = stead_app::Access::Project(stead_domain::principal::Role::Owner);
            match life.app.admit(access, stead_app::Presented::Socket, Some(handle.to_owned()), arrival).await.unwrap() {
                stead_app::identity::access::Admitted::Entered(entered) => entered,
                other => panic!("{other:?}"),
            }
        })
    };
    for (number, fault) in FAILURES.into_iter().chain(CRASHES).enumerate() {
        for failing in 0..5 {
            let handle: &'static str = Box::leak(format!("doomed-{number}-{failing}").into_boxed_str());
            let life = world.live();
            let entered = in_project(&life, handle);
            for name in ["a", "b"] {
                let new = stead_app::environments::NewEnvironment { name: Some(name.to_owned()), ..Default::default() };
                life.run(life.app.create_environment(&entered, new)).unwrap();
            }
            for _ in 0..2 {
                life.run(life.app.create_sandbox(&entered, SandboxRequest::default())).unwrap();
            }
            // The first `failing` removals go well, and of four removals the fifth never comes.
            let before = world.cloud.things().len();
            let app = life.app.clone();
            for _ in 0..failing {
                world.cloud.plan(Step::Destroy, Fault::Nothing);
            }
            world.cloud.plan(Step::Destroy, fault);
            let deleted = life.start(async move { app.delete_project(&entered, Some(handle)).await });
            if CRASHES.contains(&fault) && failing < 4 {
                life.run(world.cloud.until_hung());
            } else {
                assert_eq!(life.run(deleted).unwrap().unwrap().handle, handle, "the project is gone, whatever is left to do");
            }
            life.crash();
            world.cloud.forget_plans();

            let life = world.live();
            life.settle();
            assert_eq!(world.cloud.things().len(), before - 4);
            life.assert_at_rest(&world.cloud);
            life.end();
        }
    }
}
