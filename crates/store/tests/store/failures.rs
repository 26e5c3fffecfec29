//! A full disk, a unit that misbehaves, a database that goes away.

use stead_domain::{Code, Error};
use stead_store::{StoreError, projects};
use stead_testing::PrivatePostgres;

use crate::fixtures::Fixture;

#[tokio::test]
async fn a_full_disk_fails_the_whole_group_as_retryable_and_loses_nothing() {
    let fixture = Fixture::sqlite().await;
    let project = fixture.project("default").await;
    fixture.place(project, "before").await.unwrap();
    // The same error that a full disk gives, without filling one.
    let limit = |unit: &'static str| fixture.store.write(move |store| Box::pin(async move { store.fetch(unit, &[]).await }));
    let pages = limit("PRAGMA page_count").await.unwrap()[0].reader().integer().unwrap();
    assert!(pages > 0);
    limit("PRAGMA max_page_count = 60").await.unwrap();
    let outcomes = futures::future::join_all((0..300).map(|number| {
        let name = format!("e{number}");
        let fixture = &fixture;
        async move { (name.clone(), fixture.place(project, &name).await) }
    }))
    .await;
    let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
    assert!(failed > 0, "the limit must be hit");
    for (_, outcome) in &outcomes {
        if let Err(error) = outcome {
            assert!(matches!(error.code(), Code::StorageFull | Code::ServiceUnavailable), "{error:?}");
            assert!(error.is_recoverable());
        }
    }
    limit("PRAGMA max_page_count = 1000000").await.unwrap();
    let page = stead_domain::page::PageRequest { limit: 200, after: None };
    let listed = fixture
        .store
        .read(move |unit| Box::pin(async move { stead_store::environments::list(unit, project, &Default::default(), &page).await }))
        .await
        .unwrap();
    let acknowledged = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).count() + 1;
    assert_eq!(listed.len().min(200), acknowledged.min(200));
    fixture.place(project, "after").await.unwrap();
}

#[tokio::test]
async fn a_unit_that_panics_or_waits_hurts_only_itself() {
    let fixture = Fixture::sqlite().await;
    let waits: Result<(), StoreError> = fixture
        .store
        .write(|_| {
            Box::pin(async {
                tokio::task::yield_now().await;
                Ok(())
            })
        })
        .await;
    assert!(matches!(waits, Err(StoreError::Broken(_))));
    let panics: Result<(), StoreError> = fixture.store.write(|_| Box::pin(async { panic!("on purpose") })).await;
    assert!(matches!(panics, Err(StoreError::Broken(_))));
    fixture.project("fine").await;
}

/// Looks, when it goes, whether everybody sees what was written.
struct Kept(stead_store::Store, std::sync::mpsc::Sender<Option<String>>);

impl Drop for Kept {
    fn drop(&mut self) {
        let read = self.0.read(|unit| Box::pin(async move { stead_store::settings::get(unit, "kept").await }));
        // On the one thread that writes, without a runtime: those who read are others.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _ = self.1.send(runtime.block_on(read).unwrap());
    }
}

#[tokio::test]
async fn what_a_unit_keeps_stays_until_others_see_what_it_wrote() {
    let fixture = Fixture::sqlite().await;
    let (sender, seen) = std::sync::mpsc::channel();
    let kept = Kept(fixture.store.clone(), sender);
    let mut write = Box::pin(fixture.store.write(move |unit| {
        Box::pin(async move {
            unit.keep_until_over(kept);
            stead_store::settings::set(unit, "kept", "yes").await
        })
    }));
    // Nobody waits for it any more.
    std::future::poll_fn(|context| {
        let _ = write.as_mut().poll(context);
        std::task::Poll::Ready(())
    })
    .await;
    drop(write);
    let seen = tokio::task::spawn_blocking(move || seen.recv().unwrap()).await.unwrap();
    assert_eq!(seen.as_deref(), Some("yes"));
}

#[tokio::test]
async fn a_postgres_that_goes_away_and_comes_back() {
    let mut server = PrivatePostgres::start();
    let fixture = Fixture::postgres(&server, "away").await;
    let project = fixture.project("default").await;
    server.stop();
    let error: Error = fixture.place(project, "while-away").await.unwrap_err();
    assert_eq!(error.code(), Code::ServiceUnavailable);
    assert!(error.is_recoverable() && error.suggested().is_some());
    assert!(!error.message().contains("host="), "nothing of the address in the message");
    server.resume();
    fixture.place(project, "back").await.unwrap();
    let found = fixture.store.read(move |unit| Box::pin(async move { projects::find(unit, project).await })).await.unwrap();
    assert!(found.is_some());
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let fixture = Fixture::sqlite().await;
    fixture.store.close().await;
    let outcome = fixture.store.read(|unit| Box::pin(async move { projects::find_by_handle(unit, "default").await })).await;
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))));
}
