//! Processes, on both stores alike. The cases run in `conformance`.

use std::time::Duration;

use stead_domain::environment::EnvironmentStatus;
use stead_domain::ids::{HostId, PrincipalId, ProcessId};
use stead_domain::page::PageRequest;
use stead_domain::process::{ExitCause, Process, ProcessExit, ProcessPurpose, ProcessStatus, ProcessUsage, StdinMode, TerminalSize};
use stead_domain::{Error, Timestamp};
use stead_store::maintenance::{self, Horizon};
use stead_store::processes::{self, ProcessFilter};
use stead_store::{StoreError, environments};

use crate::fixtures::Fixture;

pub fn exit(at: Timestamp) -> ProcessExit {
    ProcessExit {
        cause: ExitCause::Signaled,
        code: None,
        signal: Some(9),
        usage: ProcessUsage { cpu_ms: 1, peak_memory_bytes: 2, read_bytes: 3, written_bytes: 4 },
        duration_ms: 5,
        ended_at: at,
        limits_hit: vec!["pids".to_owned()],
    }
}

async fn find(fixture: &Fixture, id: ProcessId) -> Option<Process> {
    fixture.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::find_any(unit, id).await?) })).await.unwrap()
}

pub async fn a_process_comes_back_as_it_was_written(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let environment = fixture.place(project, "web").await.unwrap();
    let other = fixture.place(project, "other").await.unwrap();
    let mut process = fixture.process(&environment);
    process.cwd = Some("src/日本".to_owned());
    process.stdin = StdinMode::Open;
    process.terminal = Some(TerminalSize { rows: 24, cols: 80 });
    process.timeout = Some(stead_domain::duration::Duration::from_millis(1500));
    process.started_by = Some(PrincipalId::new(&fixture.context));
    let (written, id) = (process.clone(), process.id);
    let (found, foreign) = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                processes::insert(unit, &written, None).await?;
                let found = processes::find(unit, project, environment.id, id).await?;
                Ok::<_, Error>((found, processes::find(unit, project, other.id, id).await?))
            })
        })
        .await
        .unwrap();
    assert_eq!((found, foreign), (Some(process.clone()), None));
    process.id = ProcessId::new(&fixture.context);
    process.environment_id = stead_domain::ids::EnvironmentId::new(&fixture.context);
    let outcome = fixture.store.write(move |unit| Box::pin(async move { processes::insert(unit, &process, None).await })).await;
    assert!(matches!(outcome, Err(StoreError::MissingReference(_))), "{outcome:?}");
}

pub async fn an_end_is_written_once(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let environment = fixture.place(project, "web").await.unwrap();
    let (first, second) = (fixture.started(&environment, None).await, fixture.started(&environment, None).await);
    let (id, failed, at) = (first.id, second.id, fixture.context.now());
    let later = exit(at.plus(Duration::from_secs(9)));
    let outcomes = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                Ok::<_, Error>([
                    processes::set_running(unit, id).await?,
                    processes::set_running(unit, id).await?,
                    processes::finish(unit, id, &exit(at)).await?,
                    processes::finish(unit, id, &later).await?,
                    processes::fail(unit, id, "late", at).await?,
                    processes::set_running(unit, id).await?,
                    processes::fail(unit, failed, "no such program", at).await?,
                    processes::finish(unit, failed, &later).await?,
                ])
            })
        })
        .await
        .unwrap();
    assert_eq!(outcomes, [true, false, true, false, false, false, true, false]);
    let first = find(fixture, id).await.unwrap();
    assert_eq!((first.status, first.exit, first.error), (ProcessStatus::Exited, Some(exit(at)), None));
    let second = find(fixture, failed).await.unwrap();
    assert_eq!((second.status, second.exit, second.error.as_deref()), (ProcessStatus::Failed, None, Some("no such program")));
}

pub async fn a_list_is_of_one_environment_and_in_pages(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let environment = fixture.place(project, "web").await.unwrap();
    let other = fixture.place(project, "other").await.unwrap();
    fixture.started(&other, None).await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(fixture.started(&environment, None).await.id);
    }
    expected.reverse();
    let (last, at, id) = (expected[0], fixture.context.now(), environment.id);
    let (first, second, running, over) = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                processes::finish(unit, last, &exit(at)).await?;
                let all = ProcessFilter::default();
                let first = processes::list(unit, id, &all, &PageRequest { limit: 3, after: None }).await?;
                let after = Some(first[2].id.to_string());
                let second = processes::list(unit, id, &all, &PageRequest { limit: 3, after }).await?;
                let page = PageRequest { limit: 50, after: None };
                let running = processes::list(unit, id, &ProcessFilter { unfinished: true, ..all }, &page).await?;
                let over = ProcessFilter { status: Some(ProcessStatus::Exited), ..all };
                Ok::<_, Error>((first, second, running, processes::list(unit, id, &over, &page).await?))
            })
        })
        .await
        .unwrap();
    let ids = |rows: &[Process]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!([ids(&first)[..3].to_vec(), ids(&second)].concat(), expected);
    assert_eq!(ids(&running), expected[1..]);
    assert_eq!(ids(&over), [last]);
}

pub async fn a_host_finds_its_unfinished_ones_and_those_of_nobody(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let environment = fixture.place(project, "web").await.unwrap();
    let (here, there) = (HostId::new(&fixture.context), HostId::new(&fixture.context));
    let own = fixture.started(&environment, Some(here)).await.id;
    fixture.started(&environment, Some(there)).await;
    let shared = fixture.started(&environment, None).await.id;
    let over = fixture.started(&environment, Some(here)).await.id;
    let at = fixture.context.now();
    let (all, rest) = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                processes::finish(unit, over, &exit(at)).await?;
                let all = processes::unfinished(unit, here, None).await?;
                Ok::<_, Error>((all, processes::unfinished(unit, here, Some(own)).await?))
            })
        })
        .await
        .unwrap();
    assert_eq!(all.iter().map(|row| row.id).collect::<Vec<_>>(), [own, shared]);
    assert_eq!(rest.iter().map(|row| row.id).collect::<Vec<_>>(), [shared]);
}

pub async fn old_ones_are_found_and_go_with_their_environment(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let mut environment = fixture.place(project, "web").await.unwrap();
    let host = HostId::new(&fixture.context);
    let old = fixture.started(&environment, Some(host)).await.id;
    let kept = fixture.started(&environment, Some(host)).await.id;
    let at = fixture.context.now();
    let later = at.plus(Duration::from_secs(5));
    environment.status = EnvironmentStatus::Destroyed;
    environment.destroyed_at = Some(at);
    let (found, count, deleted, again) = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                processes::finish(unit, old, &exit(at)).await?;
                let found = processes::over_before(unit, host, later).await?;
                let none = processes::over_before(unit, host, at).await?;
                assert!(none.is_empty());
                let count = processes::count_over_before(unit, host, later).await?;
                let deleted = processes::delete(unit, old).await?;
                let again = processes::delete(unit, old).await?;
                environments::save(unit, &environment).await?;
                maintenance::prune(unit, Horizon { audit: later, tombstones: later, now: later }).await?;
                Ok::<_, Error>((found, count, deleted, again))
            })
        })
        .await
        .unwrap();
    assert_eq!((found.iter().map(|row| row.id).collect::<Vec<_>>(), count), (vec![old], 1));
    assert_eq!((deleted, again, find(fixture, kept).await), (true, false, None));
}

pub async fn the_last_of_a_purpose_is_found_and_what_was_set_up_is_kept(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let environment = fixture.place(project, "web").await.unwrap();
    let mut rows = Vec::new();
    for (purpose, spec_version) in
        [(Some(ProcessPurpose::Setup), 1), (Some(ProcessPurpose::Setup), 1), (None, 1), (Some(ProcessPurpose::Setup), 2)]
    {
        rows.push(Process { purpose, spec_version, ..fixture.process(&environment) });
    }
    let (written, id) = (rows.clone(), environment.id);
    let (found, versions, saved) = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                for process in &written {
                    processes::insert(unit, process, None).await?;
                }
                let mut found = Vec::new();
                for version in 1..=3 {
                    found.push(processes::latest(unit, id, ProcessPurpose::Setup, version).await?);
                }
                let mut versions = vec![environments::setup_version(unit, id).await?];
                environments::set_setup_version(unit, id, Some(2)).await?;
                versions.push(environments::setup_version(unit, id).await?);
                // Whoever saves the rest of the row leaves it alone.
                environments::save(unit, &environment).await?;
                let saved = environments::setup_version(unit, id).await?;
                environments::set_setup_version(unit, id, None).await?;
                versions.push(environments::setup_version(unit, id).await?);
                Ok::<_, Error>((found, versions, saved))
            })
        })
        .await
        .unwrap();
    assert_eq!(found, [Some(rows[1].clone()), Some(rows[3].clone()), None]);
    assert_eq!((versions, saved), (vec![None, Some(2), None], Some(2)));
}
