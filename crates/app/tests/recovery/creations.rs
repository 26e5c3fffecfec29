//! Create, with something going wrong at each step.

use std::time::Duration;

use stead_app::Outcome;
use stead_domain::Code;
use stead_domain::environment::EnvironmentStatus::{Destroyed, Failed, Provisioning, Ready};

use crate::cloud::{CRASHES, FAILURES, Fault, Step};
use crate::life::{World, record_of};

#[test]
fn a_crash_at_any_step_ends_in_one_ready_environment() {
    let world = World::sqlite();
    for (number, crash) in CRASHES.into_iter().enumerate() {
        let name = format!("cut-off-{number}");
        let life = world.live();
        world.cloud.plan(Step::Create, crash);
        drop(life.start_create(&name, None));
        life.run(world.cloud.until_hung());
        assert_eq!(life.named(&name)[0].status, Provisioning);
        life.crash();

        let life = world.live();
        life.settle();
        let found = life.named(&name);
        assert_eq!((found.len(), found[0].status), (1, Ready), "{crash:?}");
        life.assert_at_rest(&world.cloud);
        life.end();
    }
}

#[test]
fn a_repetition_after_a_crash_finishes_the_first_and_is_then_told_again() {
    let world = World::sqlite();
    for (number, crash) in CRASHES.into_iter().enumerate() {
        for reconciled_first in [false, true] {
            let name = format!("repeated-{number}-{reconciled_first}");
            let life = world.live();
            world.cloud.plan(Step::Create, crash);
            drop(life.start_create(&name, Some(&name)));
            life.run(world.cloud.until_hung());
            life.crash();

            let life = world.live();
            if reconciled_first {
                life.settle();
            }
            let first = life.created(&name, Some(&name));
            assert_eq!((first.status, life.named(&name).len()), (Ready, 1));
            let Outcome::Again(reply) = life.create(&name, Some(&name)).unwrap() else { panic!("the reply was not kept") };
            assert_eq!((reply.status, serde_json::to_vec(&first).unwrap()), (201, reply.body));
            // What became of it later does not change what was answered.
            life.delete(first.id).unwrap();
            let told_again = life.created(&name, Some(&name));
            assert_eq!(serde_json::to_value(told_again).unwrap(), serde_json::to_value(&first).unwrap());
            assert_eq!(life.named(&name).len(), 1);
            life.settle();
            life.assert_at_rest(&world.cloud);
            life.end();
        }
    }
}

#[test]
fn a_creation_that_fails_leaves_nothing_and_its_name_and_key_are_free() {
    let world = World::sqlite();
    let life = world.live();
    for (number, fault) in FAILURES.into_iter().enumerate() {
        let name = format!("failed-{number}");
        world.cloud.plan(Step::Create, fault);
        let error = life.create(&name, Some(&name)).unwrap_err();
        let expected = if fault == Fault::Refuse { Code::ProviderFailed } else { Code::ServiceUnavailable };
        assert_eq!(error.code(), expected);
        assert!(error.suggested().is_some());
        assert_eq!(life.named(&name)[0].status, Destroyed, "{fault:?}");
        let second = life.created(&name, Some(&name));
        assert_eq!(second.status, Ready);
        assert_ne!(second.id, life.named(&name)[0].id);
    }
    life.settle();
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn an_undo_that_fails_or_is_cut_off_is_finished_later() {
    let world = World::sqlite();
    for (number, fault) in FAILURES.into_iter().chain(CRASHES).enumerate() {
        let name = format!("undone-{number}");
        let life = world.live();
        world.cloud.plan(Step::Create, Fault::LoseReply);
        world.cloud.plan(Step::Destroy, fault);
        let creation = life.start_create(&name, Some(&name));
        if CRASHES.contains(&fault) {
            life.run(world.cloud.until_hung());
        } else {
            assert!(life.run(creation).unwrap().is_err());
        }
        life.crash();

        let life = world.live();
        life.settle();
        assert_eq!(life.named(&name)[0].status, Destroyed, "{fault:?}");
        life.assert_at_rest(&world.cloud);
        assert_eq!(life.created(&name, Some(&name)).status, Ready, "the key was given back");
        life.end();
    }
}

#[test]
fn what_the_provider_refuses_after_a_crash_is_failed_until_it_is_asked_again() {
    let world = World::sqlite();
    for by_repetition in [true, false] {
        let name = format!("refused-{by_repetition}");
        let life = world.live();
        world.cloud.plan(Step::Create, Fault::HangBefore);
        drop(life.start_create(&name, Some(&name)));
        life.run(world.cloud.until_hung());
        life.crash();

        let life = world.live();
        world.cloud.plan(Step::Create, Fault::Unreachable);
        life.pass();
        assert_eq!(life.named(&name)[0].status, Provisioning, "what may pass is tried again");
        world.cloud.plan(Step::Create, Fault::Refuse);
        life.pass();
        let failed = life.get(life.named(&name)[0].id);
        assert_eq!(failed.status, Failed);
        assert!(failed.last_error.as_deref().unwrap().contains("planned"));
        let mended = if by_repetition { life.created(&name, Some(&name)) } else { life.reconcile(failed.id).unwrap() };
        assert_eq!((mended.id, mended.status, mended.last_error), (failed.id, Ready, None));
        life.settle();
        life.assert_at_rest(&world.cloud);
        life.end();
    }
}

#[test]
fn a_repetition_that_fails_again_is_answered_with_the_failure() {
    let world = World::sqlite();
    let life = world.live();
    world.cloud.plan(Step::Create, Fault::HangBefore);
    drop(life.start_create("again", Some("again")));
    life.run(world.cloud.until_hung());
    life.crash();

    let life = world.live();
    world.cloud.plan(Step::Create, Fault::Refuse);
    assert_eq!(life.create("again", Some("again")).unwrap_err().code(), Code::ProviderFailed);
    assert_eq!(life.named("again")[0].status, Destroyed);
    assert_eq!(life.created("again", Some("again")).status, Ready);
    life.settle();
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn a_caller_who_hangs_up_changes_nothing() {
    let world = World::sqlite();
    let life = world.live();
    world.cloud.plan(Step::Create, Fault::HangBefore);
    // The first request waits at the provider and its caller goes away; the second finds it under way and waits for it, the third too.
    let first = life.start_create("left", Some("left"));
    life.run(world.cloud.until_hung());
    first.abort();
    let others: Vec<_> = (0..10).map(|_| life.start_create("left", Some("left"))).collect();
    life.crash();
    drop(others);

    let life = world.live();
    let many: Vec<_> = (0..20).map(|_| life.start_create("left", Some("left"))).collect();
    let ids: Vec<_> = many.into_iter().map(|one| record_of(life.run(one).unwrap().unwrap()).id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(life.named("left").len(), 1);
    life.settle();
    life.assert_at_rest(&world.cloud);
    life.end();
}

#[test]
fn a_provider_that_never_answers_is_given_up() {
    let world = World::sqlite();
    let life = world.live_on(world.host, &world.cloud, Duration::from_millis(20));
    for crash in CRASHES {
        world.cloud.plan(Step::Create, crash);
        world.cloud.plan(Step::Destroy, crash);
        let error = life.create("waiting", None).unwrap_err();
        assert_eq!(error.code(), Code::ServiceUnavailable);
        assert!(error.message().contains("did not answer"), "{error}");
        life.pass();
        assert_eq!(life.named("waiting").last().unwrap().status, Destroyed);
    }
    world.cloud.plan(Step::List, Fault::HangBefore);
    life.settle();
    life.assert_at_rest(&world.cloud);
    // And the server can end although the provider hangs.
    world.cloud.plan(Step::Create, Fault::HangBefore);
    drop(life.start_create("at-the-end", None));
    life.run(world.cloud.until_hung());
    life.end();
}

#[test]
fn the_same_key_with_another_request_is_refused_also_after_a_crash() {
    let world = World::sqlite();
    let life = world.live();
    world.cloud.plan(Step::Create, Fault::HangAfter);
    drop(life.start_create("first", Some("key")));
    life.run(world.cloud.until_hung());
    life.crash();

    let life = world.live();
    let error = life.run(async {
        let mut entered = life.enter(Some("key")).await;
        entered.caller.idempotency.as_mut().unwrap().fingerprint = "another".to_owned();
        life.app.create_environment(&entered, Default::default()).await.unwrap_err()
    });
    assert_eq!(error.code(), Code::IdempotencyMismatch);
    life.settle();
    life.assert_at_rest(&world.cloud);
    life.end();
}
