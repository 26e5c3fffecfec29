//! Two hosts on one database. Records belong to both; a sandbox belongs to the host that keeps it.

use std::collections::HashMap;
use std::time::Duration;

use stead_app::sandboxes::SandboxRequest;
use stead_app::{App, Outcome};
use stead_domain::Code;
use stead_domain::environment::EnvironmentStatus::{Destroyed, Destroying, Failed, Provisioning, Ready};
use stead_domain::ids::HostId;
use stead_domain::sandbox::SandboxStatus;
use stead_testing::PrivatePostgres;

use crate::cloud::{Cloud, Fault, Step};
use crate::life::World;

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn only_its_own_host_touches_a_sandbox() {
    let server = PrivatePostgres::start();
    let world = World::postgres(&server, "hosts");
    let (other_host, other_cloud) = (HostId::new(&world.context), Cloud::new());
    let here = world.live();
    let there = world.live_on(other_host, &other_cloud, LONG);
    let mine = here.created("mine", None);
    let theirs = there.created("theirs", None);
    assert_eq!((mine.runtime.host, theirs.runtime.host), (Some(world.host), Some(other_host)));
    assert_eq!(here.get(theirs.id).runtime.host, Some(other_host));

    // Records are everybody's, observation is not, and a refusal changes nothing.
    let before = here.get(theirs.id);
    assert_eq!(here.reconcile(theirs.id).unwrap_err().code(), Code::EnvironmentOnOtherHost);
    assert_eq!(here.get(theirs.id), before);

    // What the other host lost is the other host's to notice.
    other_cloud.lose(theirs.sandbox_id);
    let mut sightings = HashMap::new();
    for _ in 0..3 {
        here.run(here.app.sweep(&mut sightings));
    }
    assert_eq!(here.get(theirs.id).status, Ready);
    other_cloud.put(theirs.sandbox_id);

    // A delete frees the name at once; the owning host removes the place.
    assert_eq!(here.delete(theirs.id).unwrap().status, Destroying);
    here.pass();
    assert_eq!(here.get(theirs.id).status, Destroying);
    assert!(other_cloud.things().contains_key(&theirs.sandbox_id));
    let again = here.created("theirs", None);
    there.pass();
    assert_eq!(here.get(theirs.id).status, Destroyed);
    assert!(!other_cloud.things().contains_key(&theirs.sandbox_id));
    assert_eq!(here.get(again.id).status, Ready);

    here.assert_legal_transitions();
    assert_eq!(here.get(mine.id).status, Ready);
    here.end();
    there.end();
}

#[test]
fn a_repetition_at_another_host_does_not_give_up_what_the_first_is_making() {
    let server = PrivatePostgres::start();
    let world = World::postgres(&server, "repetition");
    let (other_host, other_cloud) = (HostId::new(&world.context), Cloud::new());
    let here = world.live();
    let there = world.live_on(other_host, &other_cloud, LONG);
    world.cloud.plan(Step::Create, Fault::HangBefore);
    drop(here.start_create("web", Some("key")));
    here.run(world.cloud.until_hung());
    assert_eq!(there.create("web", Some("key")).unwrap_err().code(), Code::IdempotencyInProgress);
    let id = there.named("web")[0].id;
    assert_eq!(there.reconcile(id).unwrap_err().code(), Code::EnvironmentOnOtherHost);
    there.pass();
    assert_eq!(there.get(id).status, Provisioning);
    here.crash();

    let here = world.live();
    world.cloud.plan(Step::Create, Fault::Refuse);
    here.pass();
    assert_eq!(here.get(id).status, Failed);
    assert_eq!(there.reconcile(id).unwrap_err().code(), Code::EnvironmentOnOtherHost);
    assert_eq!(there.get(id).status, Failed, "a refusal changes nothing");
    here.reconcile(id).unwrap();
    assert_eq!(there.create("web", Some("key")).unwrap_err().code(), Code::IdempotencyInProgress);
    assert_eq!(here.created("web", Some("key")).id, id);
    assert_eq!(there.created("web", Some("key")).id, id, "what was answered is told by any server");
    assert!(other_cloud.things().is_empty());
    here.settle();
    here.assert_at_rest(&world.cloud);
    here.end();
    there.end();
}

#[test]
fn a_sandbox_is_deleted_by_its_own_host_whoever_is_asked() {
    let server = PrivatePostgres::start();
    let world = World::postgres(&server, "sandboxes");
    let (other_host, other_cloud) = (HostId::new(&world.context), Cloud::new());
    let here = world.live();
    let there = world.live_on(other_host, &other_cloud, LONG);
    let create = |app: &App| {
        let app = app.clone();
        here.run(async move {
            let entered = crate::life::enter(&app, &world.context, None).await;
            match app.create_sandbox(&entered, SandboxRequest::default()).await.unwrap() {
                Outcome::New(sandbox) => sandbox,
                Outcome::Again(_) => panic!("it was new"),
            }
        })
    };
    let theirs = create(&there.app);
    let asked = here.run(async { here.app.delete_sandbox(&here.enter(None).await, theirs.id).await }).unwrap();
    assert_eq!(asked.status, SandboxStatus::Destroying);
    here.pass();
    assert!(other_cloud.things().contains_key(&theirs.id));
    there.pass();
    assert!(!other_cloud.things().contains_key(&theirs.id));
    assert_eq!(here.sandbox(theirs.id).status, SandboxStatus::Destroyed);
    here.end();
    there.end();
}
