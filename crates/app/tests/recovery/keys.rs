//! Keys under a clock that the test moves.

use std::time::Duration;

use stead_app::identity::NewApiKey;
use stead_app::identity::access::{Admitted, Arrival};
use stead_app::{Access, Outcome, Presented};
use stead_domain::Code;
use stead_domain::api_key::ApiKeyWithSecret;
use stead_domain::ids::RequestId;
use stead_domain::principal::Role;

use crate::life::{Life, World};

fn create(life: &Life, key: Option<&str>, expires_in: Option<Duration>) -> stead_domain::Result<(ApiKeyWithSecret, bool)> {
    let outcome = life.run(async {
        let entered = life.enter(key).await;
        let new = NewApiKey {
            name: "robot".to_owned(),
            principal_id: entered.caller.principal,
            expires_at: expires_in.map(|duration| life.app.context().now().plus(duration)),
            tags: None,
        };
        life.app.create_api_key(&entered, new).await
    })?;
    Ok(match outcome {
        Outcome::New(key) => (key, false),
        Outcome::Again(reply) => {
            assert_eq!(reply.status, 201);
            let told: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
            let secret = told["key"].as_str().unwrap().to_owned();
            (ApiKeyWithSecret { api_key: serde_json::from_value(told).unwrap(), key: secret }, true)
        }
    })
}

fn stored_replies(life: &Life) -> Vec<Option<Vec<u8>>> {
    let rows = life.run(life.store.read(|unit| Box::pin(async move { unit.fetch("SELECT reply FROM idempotency", &[]).await }))).unwrap();
    rows.iter().map(|row| row.reader().optional_blob().unwrap()).collect()
}

#[test]
fn a_key_is_told_again_for_ten_minutes_and_never_after() {
    let world = World::sqlite();
    let life = world.live();
    let (first, _) = create(&life, Some("attempt"), None).unwrap();
    let kept = stored_replies(&life);
    assert!(kept.iter().flatten().all(|reply| !String::from_utf8_lossy(reply).contains(&first.key)), "kept only sealed");
    world.clock.advance(Duration::from_secs(9 * 60));
    life.pass();
    let (again, repeated) = create(&life, Some("attempt"), None).unwrap();
    assert_eq!((again.key, again.api_key.id, repeated), (first.key.clone(), first.api_key.id, true));
    // Also by a server that came after.
    life.crash();
    let life = world.live();
    assert_eq!(create(&life, Some("attempt"), None).unwrap().0.key, first.key);

    world.clock.advance(Duration::from_secs(61));
    life.pass();
    assert_eq!(stored_replies(&life), [None], "wiped from the store");
    let error = create(&life, Some("attempt"), None).unwrap_err();
    assert_eq!(error.code(), Code::Conflict);
    assert_eq!(error.details()["id"], first.api_key.id.to_string());
    assert!(error.suggested().is_some());
    // The key itself works on, and a new attempt makes another.
    assert!(create(&life, Some("another attempt"), None).unwrap().0.key != first.key);
    life.end();
}

#[test]
fn a_key_ends_when_its_time_has_come() {
    let world = World::sqlite();
    let life = world.live();
    let (key, _) = create(&life, None, Some(Duration::from_secs(3600))).unwrap();
    let enter = || {
        let arrival = Arrival { source: "test".to_owned(), request_id: RequestId::new(&world.context), lease: None };
        let presented = Presented::Key(key.key.clone());
        life.run(life.app.admit(Access::Project(Role::Viewer), presented, Some("default".to_owned()), arrival))
    };
    assert!(matches!(enter().unwrap(), Admitted::Entered(_)));
    world.clock.advance(Duration::from_secs(3598));
    assert!(enter().is_ok());
    world.clock.advance(Duration::from_secs(2));
    let error = enter().unwrap_err();
    assert_eq!(error.code(), Code::Unauthorized);
    assert!(error.message().contains("expired"), "{error}");
    assert_eq!(create(&life, None, Some(Duration::ZERO)).unwrap_err().code(), Code::InvalidField, "one that is over is never made");
    life.end();
}

#[test]
fn an_idempotency_key_is_forgotten_after_a_day() {
    let world = World::sqlite();
    let life = world.live();
    let first = life.created("daily", Some("key"));
    world.clock.advance(Duration::from_secs(23 * 3600));
    assert_eq!(life.created("daily", Some("key")).id, first.id);
    world.clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(life.create("daily", Some("key")).unwrap_err().code(), Code::AlreadyExists, "it is a new request now");
    life.end();
}
