//! Random sequences of operations give the same outcomes and the same final rows on both databases.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use stead_domain::environment::EnvironmentStatus;
use stead_domain::ids::{EnvironmentId, ProjectId};
use stead_domain::page::PageRequest;
use stead_domain::{Code, Error};
use stead_store::environments::{self, EnvironmentFilter};
use stead_store::processes::{self, ProcessFilter};
use stead_store::{idempotency, projects, sandboxes};
use stead_testing::PrivatePostgres;

use crate::fixtures::Fixture;

#[derive(Clone, Debug)]
enum Operation {
    Create { project: usize, name: usize },
    SetStatus { environment: usize, status: EnvironmentStatus },
    Rename { environment: usize, name: usize },
    DeleteProject { project: usize },
    Claim { key: usize, fingerprint: usize },
    List { project: usize, include_destroyed: bool, reference: usize },
    CountUsers { environment: usize },
    Start { environment: usize },
    EndNewest { environment: usize, failed: bool },
    ListProcesses { environment: usize, unfinished: bool },
}

const NAMES: &[&str] = &["web", "WEB", "wEb-2", "a", "größe", "GRÖßE", "z z", "%"];

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..3usize, 0..NAMES.len()).prop_map(|(project, name)| Operation::Create { project, name }),
        3 => (0..20usize, prop::sample::select(EnvironmentStatus::ALL)).prop_map(|(environment, status)| Operation::SetStatus { environment, status }),
        2 => (0..20usize, 0..NAMES.len()).prop_map(|(environment, name)| Operation::Rename { environment, name }),
        1 => (0..3usize).prop_map(|project| Operation::DeleteProject { project }),
        2 => (0..3usize, 0..2usize).prop_map(|(key, fingerprint)| Operation::Claim { key, fingerprint }),
        3 => (0..3usize, any::<bool>(), 0..NAMES.len()).prop_map(|(project, include_destroyed, reference)| Operation::List { project, include_destroyed, reference }),
        1 => (0..20usize).prop_map(|environment| Operation::CountUsers { environment }),
        2 => (0..5usize).prop_map(|environment| Operation::Start { environment }),
        1 => (0..5usize, any::<bool>()).prop_map(|(environment, failed)| Operation::EndNewest { environment, failed }),
        1 => (0..5usize, any::<bool>()).prop_map(|(environment, unfinished)| Operation::ListProcesses { environment, unfinished }),
    ]
}

/// What a caller would see of one operation.
async fn apply(fixture: &Fixture, projects_made: &[ProjectId], made: &mut Vec<EnvironmentId>, operation: &Operation) -> String {
    let outcome: Result<String, Error> = match operation.clone() {
        Operation::Create { project, name } => fixture.place(projects_made[project], NAMES[name]).await.map(|environment| {
            made.push(environment.id);
            format!("{environment:?}")
        }),
        Operation::SetStatus { environment, status } => {
            change(fixture, made, environment, move |row| {
                row.status = status;
                row.destroyed_at = (status == EnvironmentStatus::Destroyed).then_some(row.created_at);
            })
            .await
        }
        Operation::Rename { environment, name } => change(fixture, made, environment, move |row| row.name = NAMES[name].to_owned()).await,
        Operation::DeleteProject { project } => {
            let (id, now) = (projects_made[project], fixture.context.now());
            fixture
                .store
                .write(move |unit| Box::pin(async move { Ok(format!("{:?}", projects::mark_deleted(unit, id, now).await?)) }))
                .await
        }
        Operation::Claim { key, fingerprint } => {
            let now = fixture.context.now();
            let later = now.plus(std::time::Duration::from_micros(40));
            fixture
                .store
                .write(move |unit| {
                    Box::pin(async move {
                        let claim = idempotency::claim(unit, "scope", &key.to_string(), &fingerprint.to_string(), now, later).await?;
                        Ok(format!("{claim:?}"))
                    })
                })
                .await
        }
        Operation::List { project, include_destroyed, reference } => {
            let id = projects_made[project];
            let reference = (reference > 3).then(|| NAMES[reference].to_owned());
            let filter = EnvironmentFilter { include_destroyed, reference, ..EnvironmentFilter::default() };
            let page = PageRequest { limit: 7, after: None };
            fixture
                .store
                .read(move |unit| Box::pin(async move { Ok(format!("{:?}", environments::list(unit, id, &filter, &page).await?)) }))
                .await
        }
        Operation::CountUsers { environment } => match made.get(environment).copied() {
            Some(id) => {
                fixture
                    .store
                    .read(move |unit| {
                        Box::pin(async move {
                            let sandbox = environments::find_any(unit, id).await?.map(|row| row.sandbox_id);
                            Ok(match sandbox {
                                Some(sandbox) => sandboxes::users(unit, sandbox).await?.to_string(),
                                None => String::new(),
                            })
                        })
                    })
                    .await
            }
            None => Ok(String::new()),
        },
        Operation::Start { environment } => match found(fixture, made, environment).await {
            Some(environment) => Ok(format!("{:?}", fixture.started(&environment, None).await)),
            None => Ok(String::new()),
        },
        Operation::EndNewest { environment, failed } => {
            let Some(id) = made.get(environment).copied() else { return String::new() };
            let now = fixture.context.now();
            fixture
                .store
                .write(move |unit| {
                    Box::pin(async move {
                        let page = PageRequest { limit: 1, after: None };
                        let newest = processes::list(unit, id, &ProcessFilter::default(), &page).await?;
                        let Some(newest) = newest.first() else { return Ok(String::new()) };
                        let changed = if failed {
                            processes::fail(unit, newest.id, "planned", now).await?
                        } else {
                            processes::finish(unit, newest.id, &crate::processes::exit(now)).await?
                        };
                        Ok(format!("{changed} {:?}", processes::find_any(unit, newest.id).await?))
                    })
                })
                .await
        }
        Operation::ListProcesses { environment, unfinished } => {
            let Some(id) = made.get(environment).copied() else { return String::new() };
            let filter = ProcessFilter { unfinished, ..ProcessFilter::default() };
            let page = PageRequest { limit: 3, after: None };
            fixture
                .store
                .read(move |unit| Box::pin(async move { Ok(format!("{:?}", processes::list(unit, id, &filter, &page).await?)) }))
                .await
        }
    };
    outcome.unwrap_or_else(|error| {
        assert!(!matches!(error.code(), Code::Internal | Code::ServiceUnavailable), "{operation:?}: {error:?}");
        error.code().to_string()
    })
}

async fn found(fixture: &Fixture, made: &[EnvironmentId], environment: usize) -> Option<stead_domain::environment::Environment> {
    let id = made.get(environment).copied()?;
    fixture.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(environments::find_any(unit, id).await?) })).await.unwrap()
}

async fn change(
    fixture: &Fixture,
    made: &[EnvironmentId],
    environment: usize,
    edit: impl FnOnce(&mut stead_domain::environment::Environment) + Send + 'static,
) -> Result<String, Error> {
    let Some(id) = made.get(environment).copied() else { return Ok(String::new()) };
    fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                let Some(mut row) = environments::lock(unit, id).await? else { return Ok("gone".to_owned()) };
                edit(&mut row);
                environments::save(unit, &row).await?;
                Ok(format!("{:?}", environments::find_any(unit, id).await?))
            })
        })
        .await
}

#[test]
fn random_sequences_have_the_same_outcome_on_both() {
    let server = PrivatePostgres::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let cases = std::env::var("STEAD_PROVE").map_or(24, |_| 400);
    let number = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&prop::collection::vec(operation(), 1..40), |operations| {
            number.set(number.get() + 1);
            runtime.block_on(async {
                let left = Fixture::sqlite().await;
                let right = Fixture::postgres(&server, &format!("case{}", number.get())).await;
                let mut made = (Vec::new(), Vec::new());
                let mut projects_made = (Vec::new(), Vec::new());
                for handle in ["one", "two", "three"] {
                    projects_made.0.push(left.project(handle).await);
                    projects_made.1.push(right.project(handle).await);
                }
                for operation in &operations {
                    let ours = apply(&left, &projects_made.0, &mut made.0, operation).await;
                    let theirs = apply(&right, &projects_made.1, &mut made.1, operation).await;
                    assert_eq!(ours, theirs, "{operation:?}");
                }
                right.store.close().await;
                left.store.close().await;
            });
            Ok(())
        })
        .unwrap();
}
