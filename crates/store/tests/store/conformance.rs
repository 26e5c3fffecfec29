//! What both stores must do alike.

use stead_domain::api_key::{self, ApiKey};
use stead_domain::environment::{DefinitionVersion, EnvironmentStatus, ProviderStatus, ScopeFilter};
use stead_domain::host::Host;
use stead_domain::ids::{ApiKeyId, HostId, PrincipalId};
use stead_domain::page::PageRequest;
use stead_domain::principal::{Principal, PrincipalKind, Role};
use stead_domain::{Code, Error};
use stead_store::environments::EnvironmentFilter;
use stead_store::idempotency::{self, StoredReply};
use stead_store::maintenance::{self, Horizon};
use stead_store::{StoreError, api_keys, environments, hosts, members, principals, projects, sandboxes, settings, versions};
use stead_testing::PrivatePostgres;

use crate::fixtures::Fixture;

#[tokio::test]
async fn sqlite_conforms() {
    macro_rules! run {
        ($($case:path),* $(,)?) => { $($case(&Fixture::sqlite().await).await;)* };
    }
    cases!(run);
}

#[tokio::test]
async fn postgres_conforms() {
    let server = PrivatePostgres::start();
    macro_rules! run {
        ($($case:path),* $(,)?) => { $($case(&Fixture::postgres(&server, &name(stringify!($case))).await).await;)* };
    }
    cases!(run);
}

/// A name for the case's own database: of a path, what stands last.
fn name(case: &str) -> String {
    case.rsplit(':').next().unwrap_or(case).trim().chars().take(60).collect()
}

macro_rules! cases {
    ($run:ident) => {
        $run!(
            an_environment_comes_back_as_it_was_written,
            a_name_is_taken_until_its_environment_is_deleted,
            names_are_compared_without_case_and_per_scope,
            pages_join_without_gap_or_overlap,
            filters_narrow_the_list,
            images_are_named_by_live_definitions,
            a_reference_finds_by_the_beginning_of_id_or_name,
            a_unit_that_fails_leaves_nothing,
            concurrent_units_on_one_row_lose_no_update,
            only_one_of_many_concurrent_creates_gets_the_name,
            handles_are_free_again_after_deletion,
            keys_are_found_by_hash_until_revoked,
            the_last_owner_can_be_counted,
            an_idempotency_key_is_claimed_once,
            settings_keep_the_first_value,
            hosts_beat,
            versions_are_listed_newest_first,
            what_a_provider_said_is_shown_with_the_environment,
            pruning_takes_only_what_is_old,
            a_snapshot_sees_one_state,
            a_missing_reference_is_refused,
            crate::processes::a_process_comes_back_as_it_was_written,
            crate::processes::an_end_is_written_once,
            crate::processes::a_list_is_of_one_environment_and_in_pages,
            crate::processes::a_host_finds_its_unfinished_ones_and_those_of_nobody,
            crate::processes::old_ones_are_found_and_go_with_their_environment,
            crate::processes::the_last_of_a_purpose_is_found_and_what_was_set_up_is_kept,
            crate::secrets::a_secret_has_the_value_that_it_was_given_last,
            crate::secrets::a_deleted_secret_leaves_its_name_and_no_value,
            crate::secrets::values_are_wrapped_anew_unless_they_were_set_meanwhile,
            crate::secrets::nobody_seals_with_a_key_that_is_left_behind,
        )
    };
}
use cases;

type Unit<T> = Result<T, Error>;

async fn an_environment_comes_back_as_it_was_written(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let written = fixture.place(project, "größe 日本 'quoted' \"x\"; DROP TABLE environments").await.unwrap();
    let id = written.id;
    let read =
        fixture.store.read(move |unit| Box::pin(async move { Unit::Ok(environments::find(unit, project, id).await?) })).await.unwrap();
    assert_eq!(read, Some(written.clone()));
    let other = fixture.project("other").await;
    let foreign =
        fixture.store.read(move |unit| Box::pin(async move { Unit::Ok(environments::find(unit, other, id).await?) })).await.unwrap();
    assert_eq!(foreign, None);
}

async fn a_name_is_taken_until_its_environment_is_deleted(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let mut first = fixture.place(project, "web").await.unwrap();
    assert_eq!(fixture.place(project, "web").await.unwrap_err().code(), Code::AlreadyExists);
    first.status = EnvironmentStatus::Destroying;
    fixture.store.write(move |unit| Box::pin(async move { Unit::Ok(environments::save(unit, &first).await?) })).await.unwrap();
    fixture.place(project, "web").await.unwrap();
}

async fn names_are_compared_without_case_and_per_scope(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let first = fixture.place(project, "Größe").await.unwrap();
    assert_eq!(fixture.place(project, "gRÖSSE").await.map(drop).unwrap(), ());
    assert_eq!(fixture.place(project, "GRÖßE").await.unwrap_err().code(), Code::AlreadyExists);
    let other = fixture.project("other").await;
    fixture.place(other, "Größe").await.unwrap();
    let mut owned = fixture.environment(project, first.sandbox_id, "Größe");
    owned.scope = Some(stead_domain::environment::Scope::Owner);
    owned.owned_by = Some("prn_1".to_owned());
    fixture.store.write(move |unit| Box::pin(async move { Unit::Ok(environments::insert(unit, &owned).await?) })).await.unwrap();
    // A list that does not ask for a scope shows those without one.
    let by = |scope, owner: Option<&str>| EnvironmentFilter { scope, owned_by: owner.map(str::to_owned), ..EnvironmentFilter::default() };
    for (filter, expected) in [
        (by(None, None), &["gRÖSSE", "Größe"][..]),
        (by(None, Some("prn_1")), &[]),
        (by(Some(ScopeFilter::Owner), None), &["Größe"]),
        (by(Some(ScopeFilter::Owner), Some("prn_1")), &["Größe"]),
        (by(Some(ScopeFilter::Owner), Some("prn_2")), &[]),
        (by(Some(ScopeFilter::Any), None), &["Größe", "gRÖSSE", "Größe"]),
        (by(Some(ScopeFilter::Any), Some("prn_1")), &["Größe"]),
    ] {
        assert_eq!(list(fixture, project, filter.clone()).await, expected, "{filter:?}");
    }
}

async fn pages_join_without_gap_or_overlap(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let mut expected = Vec::new();
    for number in 0..25 {
        expected.push(fixture.place(project, &format!("e{number}")).await.unwrap().id);
    }
    expected.reverse();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = PageRequest { limit: 10, after };
        let rows = fixture
            .store
            .read(move |unit| {
                Box::pin(async move { Unit::Ok(environments::list(unit, project, &EnvironmentFilter::default(), &page).await?) })
            })
            .await
            .unwrap();
        let more = rows.len() > 10;
        seen.extend(rows.iter().take(10).map(|row| row.id));
        after = seen.last().map(ToString::to_string);
        if !more {
            break;
        }
    }
    assert_eq!(seen, expected);
}

async fn list(fixture: &Fixture, project: stead_domain::ids::ProjectId, filter: EnvironmentFilter) -> Vec<String> {
    let page = PageRequest { limit: 200, after: None };
    let rows = fixture
        .store
        .read(move |unit| Box::pin(async move { Unit::Ok(environments::list(unit, project, &filter, &page).await?) }))
        .await
        .unwrap();
    rows.into_iter().map(|row| row.name).collect()
}

async fn filters_narrow_the_list(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let mut gone = fixture.place(project, "gone").await.unwrap();
    gone.status = EnvironmentStatus::Destroyed;
    gone.destroyed_at = Some(fixture.context.now());
    let since = gone.destroyed_at;
    let mut ready = fixture.place(project, "ready").await.unwrap();
    ready.status = EnvironmentStatus::Ready;
    ready.owned_by = Some("someone".to_owned());
    fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                environments::save(unit, &gone).await?;
                environments::save(unit, &ready).await?;
                Unit::Ok(())
            })
        })
        .await
        .unwrap();
    fixture.place(project, "new").await.unwrap();
    let filter = EnvironmentFilter::default;
    assert_eq!(list(fixture, project, filter()).await, ["new", "ready"]);
    assert_eq!(list(fixture, project, EnvironmentFilter { include_destroyed: true, ..filter() }).await, ["new", "ready", "gone"]);
    assert_eq!(list(fixture, project, EnvironmentFilter { status: Some(EnvironmentStatus::Destroyed), ..filter() }).await, ["gone"]);
    assert_eq!(list(fixture, project, EnvironmentFilter { status: Some(EnvironmentStatus::Ready), ..filter() }).await, ["ready"]);
    assert_eq!(list(fixture, project, EnvironmentFilter { owned_by: Some("someone".to_owned()), ..filter() }).await, ["ready"]);
    assert_eq!(list(fixture, project, EnvironmentFilter { name: Some("READY".to_owned()), ..filter() }).await, ["ready"]);
    let later = since.map(|since| since.plus(std::time::Duration::from_secs(1)));
    let narrowed = EnvironmentFilter { include_destroyed: true, destroyed_since: later, ..filter() };
    assert_eq!(list(fixture, project, narrowed).await, ["new", "ready"]);
}

async fn images_are_named_by_live_definitions(fixture: &Fixture) {
    let project = fixture.project("default").await;
    fixture.place(project, "plain").await.unwrap();
    let digest = |number: u32| format!("sha256:{}", number.to_string().repeat(64));
    for (number, is_gone) in [(1, false), (2, true)] {
        let mut environment = fixture.place(project, &format!("image-{number}")).await.unwrap();
        let root = serde_json::json!({ "view": "image", "image": "/srv/image", "digest": digest(number) });
        environment.spec.root = serde_json::from_value(root).unwrap();
        environment.destroyed_at = is_gone.then(|| fixture.context.now());
        fixture.store.write(move |unit| Box::pin(async move { Unit::Ok(environments::save(unit, &environment).await?) })).await.unwrap();
    }
    let named = fixture.store.read(|unit| Box::pin(async move { Unit::Ok(environments::digests_of_images(unit).await?) })).await.unwrap();
    assert_eq!(named, [digest(1)]);
}

async fn a_reference_finds_by_the_beginning_of_id_or_name(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let web = fixture.place(project, "web").await.unwrap();
    fixture.place(project, "web-2").await.unwrap();
    fixture.place(project, "wax%_").await.unwrap();
    let by = |reference: &str| EnvironmentFilter { reference: Some(reference.to_owned()), ..EnvironmentFilter::default() };
    assert_eq!(list(fixture, project, by("WEB")).await, ["web-2", "web"]);
    assert_eq!(list(fixture, project, by("wax%")).await, ["wax%_"]);
    assert!(list(fixture, project, by("%")).await.is_empty());
    assert_eq!(list(fixture, project, by(&web.id.to_string())).await, ["web"]);
}

async fn a_unit_that_fails_leaves_nothing(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let sandbox = fixture.sandbox(project);
    let id = sandbox.id;
    let failed: Unit<()> = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                sandboxes::insert(unit, &sandbox).await?;
                Err(Error::new(Code::Conflict, "on second thought"))
            })
        })
        .await;
    assert_eq!(failed.unwrap_err().code(), Code::Conflict);
    let found = fixture.store.read(move |unit| Box::pin(async move { Unit::Ok(sandboxes::find(unit, id).await?) })).await.unwrap();
    assert_eq!(found, None);
}

async fn concurrent_units_on_one_row_lose_no_update(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let id = fixture.place(project, "web").await.unwrap().id;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let store = fixture.store.clone();
        tasks.spawn(async move {
            store
                .write(move |unit| {
                    Box::pin(async move {
                        let mut environment = environments::lock(unit, id).await?.unwrap();
                        environment.revision += 1;
                        environments::save(unit, &environment).await?;
                        Unit::Ok(())
                    })
                })
                .await
        });
    }
    for outcome in tasks.join_all().await {
        outcome.unwrap();
    }
    let read = fixture.store.read(move |unit| Box::pin(async move { Unit::Ok(environments::find_any(unit, id).await?) })).await.unwrap();
    assert_eq!(read.unwrap().revision, 41);
}

async fn only_one_of_many_concurrent_creates_gets_the_name(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let outcomes = futures::future::join_all((0..20).map(|_| fixture.place(project, "same"))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(outcomes.iter().flat_map(|outcome| outcome.as_ref().err()).all(|error| error.code() == Code::AlreadyExists));
}

async fn handles_are_free_again_after_deletion(fixture: &Fixture) {
    let first = fixture.project("acme").await;
    let now = fixture.context.now();
    let again = || {
        let now = fixture.context.now();
        let project = stead_domain::project::Project {
            id: stead_domain::ids::ProjectId::new(&fixture.context),
            handle: "acme".to_owned(),
            name: String::new(),
            created_at: now,
            updated_at: now,
        };
        fixture.store.write(move |unit| Box::pin(async move { projects::insert(unit, &project).await }))
    };
    assert!(matches!(again().await, Err(StoreError::Duplicate(_))));
    fixture.store.write(move |unit| Box::pin(async move { projects::mark_deleted(unit, first, now).await })).await.unwrap();
    again().await.unwrap();
    let gone = fixture.store.read(move |unit| Box::pin(async move { projects::find(unit, first).await })).await.unwrap();
    assert_eq!(gone, None);
}

async fn principal(fixture: &Fixture, name: &str) -> PrincipalId {
    let principal = Principal {
        id: PrincipalId::new(&fixture.context),
        home: None,
        kind: PrincipalKind::Service,
        name: name.to_owned(),
        created_at: fixture.context.now(),
    };
    let id = principal.id;
    fixture.store.write(move |unit| Box::pin(async move { principals::insert(unit, &principal).await })).await.unwrap();
    id
}

async fn keys_are_found_by_hash_until_revoked(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let owner = principal(fixture, "ci").await;
    let now = fixture.context.now();
    let secret = api_key::generate(&fixture.context);
    let key = ApiKey {
        id: ApiKeyId::new(&fixture.context),
        name: "ci".to_owned(),
        key_prefix: api_key::prefix(&secret),
        project_id: project,
        principal_id: owner,
        expires_at: None,
        last_used_at: None,
        tags: [("a".to_owned(), "b".to_owned())].into(),
        created_at: now,
        updated_at: now,
    };
    let (id, hash, expected) = (key.id, api_key::hash(&secret), key.clone());
    let stored = hash.clone();
    fixture.store.write(move |unit| Box::pin(async move { api_keys::insert(unit, &key, &stored, true).await })).await.unwrap();
    let find = |hash: String| fixture.store.read(move |unit| Box::pin(async move { api_keys::find_by_hash(unit, &hash).await }));
    let found = find(hash.clone()).await.unwrap().unwrap();
    assert_eq!((found.key, found.pinned, found.revoked_at, found.project_handle.as_str()), (expected, true, None, "default"));
    assert!(find(api_key::hash("other")).await.unwrap().is_none());
    let revoke = || fixture.store.write(move |unit| Box::pin(async move { api_keys::revoke(unit, project, id, now).await }));
    assert!(revoke().await.unwrap());
    assert!(!revoke().await.unwrap());
    assert!(find(hash).await.unwrap().unwrap().revoked_at.is_some());
}

async fn the_last_owner_can_be_counted(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let (first, second) = (principal(fixture, "a").await, principal(fixture, "b").await);
    let now = fixture.context.now();
    let (owners, again, role) = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                assert!(members::insert(unit, project, first, Role::Owner, now).await?);
                assert!(members::insert(unit, project, second, Role::Viewer, now).await?);
                let again = members::insert(unit, project, second, Role::Owner, now).await?;
                members::set_role(unit, project, second, Role::Member, now).await?;
                Unit::Ok((members::owners(unit, project).await?, again, members::role(unit, project, second).await?))
            })
        })
        .await
        .unwrap();
    assert_eq!((owners, again, role), (1, false, Some(Role::Member)));
}

async fn an_idempotency_key_is_claimed_once(fixture: &Fixture) {
    let now = fixture.context.now();
    let later = now.plus(std::time::Duration::from_secs(60));
    let claim = |at| fixture.store.write(move |unit| Box::pin(async move { idempotency::claim(unit, "s", "k", "f", at, later).await }));
    assert_eq!(claim(now).await.unwrap(), None);
    let known = claim(now).await.unwrap().unwrap();
    assert_eq!((known.fingerprint.as_str(), known.reply), ("f", None));
    let reply = StoredReply { status: 201, body: vec![0, 1, 255], sealed: true };
    let stored = reply.clone();
    fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                idempotency::set_target(unit, "s", "k", "env_1").await?;
                idempotency::set_reply(unit, "s", "k", &stored, later).await
            })
        })
        .await
        .unwrap();
    let known = claim(now).await.unwrap().unwrap();
    assert_eq!((known.target_id.as_deref(), known.reply), (Some("env_1"), Some(reply)));
    assert_eq!(claim(later).await.unwrap(), None, "an expired key is new again");
}

async fn settings_keep_the_first_value(fixture: &Fixture) {
    let set = |value: &'static str| {
        fixture.store.write(move |unit| Box::pin(async move { settings::get_or_set(unit, "installation", value).await }))
    };
    assert_eq!(set("a").await.unwrap(), "a");
    assert_eq!(set("b").await.unwrap(), "a");
}

async fn hosts_beat(fixture: &Fixture) {
    let now = fixture.context.now();
    let mut host =
        Host { id: HostId::new(&fixture.context), address: "a".to_owned(), version: "1".to_owned(), started_at: now, heartbeat_at: now };
    for address in ["a", "b"] {
        host.address = address.to_owned();
        let beating = host.clone();
        fixture.store.write(move |unit| Box::pin(async move { hosts::beat(unit, &beating).await })).await.unwrap();
    }
    let all = fixture.store.read(|unit| Box::pin(async move { hosts::list(unit).await })).await.unwrap();
    assert_eq!(all, [host]);
}

async fn versions_are_listed_newest_first(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let environment = fixture.place(project, "web").await.unwrap();
    let (id, spec, now) = (environment.id, environment.spec, fixture.context.now());
    let listed = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                for version in 1..=12 {
                    let fingerprint = spec.fingerprint();
                    let version = DefinitionVersion {
                        version,
                        fingerprint,
                        created_by: None,
                        created_at: now,
                        rolled_back_to: None,
                        spec: spec.clone(),
                    };
                    versions::insert(unit, id, &version).await?;
                }
                let page = PageRequest { limit: 5, after: None };
                Unit::Ok(versions::list(unit, id, Some(11), &page).await?)
            })
        })
        .await
        .unwrap();
    assert_eq!(listed.iter().map(|version| version.version).collect::<Vec<_>>(), [10, 9, 8, 7, 6, 5]);
}

async fn what_a_provider_said_is_shown_with_the_environment(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let environment = fixture.place(project, "web").await.unwrap();
    let status = ProviderStatus { state: "ready".to_owned(), observed_at: fixture.context.now(), message: Some("fine".to_owned()) };
    let (id, sandbox, said) = (environment.id, environment.sandbox_id, status.clone());
    let read = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                sandboxes::observe(unit, sandbox, &said).await?;
                Unit::Ok(environments::find_any(unit, id).await?)
            })
        })
        .await
        .unwrap();
    assert_eq!(read.unwrap().runtime.provider_status, Some(status));
}

async fn pruning_takes_only_what_is_old(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let mut gone = fixture.place(project, "gone").await.unwrap();
    fixture.place(project, "live").await.unwrap();
    gone.status = EnvironmentStatus::Destroyed;
    gone.destroyed_at = Some(fixture.context.now());
    let old = gone.destroyed_at.unwrap();
    let before = Horizon { audit: old, tombstones: old, now: old };
    let after = old.plus(std::time::Duration::from_secs(1));
    let after = Horizon { audit: after, tombstones: after, now: after };
    let (kept, predicted, pruned) = fixture
        .store
        .write(move |unit| {
            Box::pin(async move {
                environments::save(unit, &gone).await?;
                let kept = maintenance::prune(unit, before).await?;
                let predicted = maintenance::prunable(unit, after).await?;
                let by_project = maintenance::prunable_by_project(unit, after).await?;
                assert_eq!(by_project, [(project, "tombstones", 1)]);
                assert!(maintenance::prunable_by_project(unit, before).await?.is_empty());
                Unit::Ok((kept, predicted, maintenance::prune(unit, after).await?))
            })
        })
        .await
        .unwrap();
    assert!(kept.iter().all(|(_, count)| *count == 0));
    assert_eq!(predicted, pruned);
    assert_eq!(pruned[1], ("tombstones", 1));
    assert_eq!(list(fixture, project, EnvironmentFilter { include_destroyed: true, ..EnvironmentFilter::default() }).await, ["live"]);
}

async fn a_snapshot_sees_one_state(fixture: &Fixture) {
    fixture.project("one").await;
    let store = fixture.store.clone();
    let context = fixture.context.clone();
    let (first, second) = fixture
        .store
        .snapshot(move |unit| {
            Box::pin(async move {
                let page = PageRequest { limit: 50, after: None };
                let first = projects::list(unit, None, None, &page).await?.len();
                // Another connection commits in between, from a thread of its own.
                std::thread::scope(|scope| {
                    scope.spawn(move || {
                        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                        let now = context.now();
                        let project = stead_domain::project::Project {
                            id: stead_domain::ids::ProjectId::new(&context),
                            handle: "two".to_owned(),
                            name: "two".to_owned(),
                            created_at: now,
                            updated_at: now,
                        };
                        if store.dialect() == stead_store::Dialect::Sqlite {
                            runtime
                                .block_on(store.write(move |unit| Box::pin(async move { projects::insert(unit, &project).await })))
                                .unwrap();
                        }
                    });
                });
                Unit::Ok((first, projects::list(unit, None, None, &page).await?.len()))
            })
        })
        .await
        .unwrap();
    assert_eq!((first, second), (1, 1));
}

async fn a_missing_reference_is_refused(fixture: &Fixture) {
    let project = fixture.project("default").await;
    let environment = fixture.environment(project, stead_domain::ids::SandboxId::new(&fixture.context), "web");
    let outcome = fixture.store.write(move |unit| Box::pin(async move { environments::insert(unit, &environment).await })).await;
    assert!(matches!(outcome, Err(StoreError::MissingReference(_))), "{outcome:?}");
}
