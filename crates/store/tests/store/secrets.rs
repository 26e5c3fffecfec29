//! Secrets in both stores: one live row for a name, the last value alone, and who wraps them anew.

use stead_domain::Error;
use stead_domain::ids::{PrincipalId, ProjectId, SecretId};
use stead_domain::page::PageRequest;
use stead_domain::secret::Secret;
use stead_store::{secrets, settings};

use crate::fixtures::Fixture;

fn secret(fixture: &Fixture, project: ProjectId, name: &str) -> Secret {
    let (by, now) = (PrincipalId::new(&fixture.context), fixture.context.now());
    Secret {
        id: SecretId::new(&fixture.context),
        project_id: project,
        name: name.to_owned(),
        version: 1,
        created_by: by,
        created_at: now,
        updated_by: by,
        updated_at: now,
    }
}

async fn set(fixture: &Fixture, secret: &Secret, sealed: &[u8], key: &'static str) -> Result<(), Error> {
    let (secret, sealed) = (secret.clone(), sealed.to_vec());
    fixture.store.write(move |unit| Box::pin(async move { Ok::<_, Error>(secrets::set(unit, &secret, &sealed, key).await?) })).await
}

async fn sealed(fixture: &Fixture, project: ProjectId, name: &'static str) -> Option<(u64, Vec<u8>)> {
    let found = fixture.store.read(move |unit| Box::pin(async move { secrets::find_sealed(unit, project, name).await })).await.unwrap();
    found.map(|found| (found.secret.version, found.sealed))
}

pub async fn a_secret_has_the_value_that_it_was_given_last(fixture: &Fixture) {
    let project = fixture.project("acme").await;
    let first = secret(fixture, project, "KEY");
    set(fixture, &first, b"one", "k1").await.unwrap();
    let second = Secret { version: 2, ..first.clone() };
    set(fixture, &second, b"two", "k1").await.unwrap();
    assert_eq!(sealed(fixture, project, "KEY").await, Some((2, b"two".to_vec())));
    let id = first.id;
    let versions = fixture.store.read(move |unit| Box::pin(async move { secrets::versions(unit, id, 2).await })).await.unwrap();
    assert_eq!(versions.iter().map(|version| (version.version, version.current)).collect::<Vec<_>>(), [(2, true), (1, false)]);
    // Another project's is another one, and a second of the same name is refused.
    let other = fixture.project("other").await;
    assert_eq!(sealed(fixture, other, "KEY").await, None);
    set(fixture, &secret(fixture, other, "KEY"), b"theirs", "k1").await.unwrap();
    assert!(set(fixture, &secret(fixture, project, "KEY"), b"three", "k1").await.is_err());
    assert_eq!(sealed(fixture, project, "KEY").await, Some((2, b"two".to_vec())));
}

pub async fn a_deleted_secret_leaves_its_name_and_no_value(fixture: &Fixture) {
    let project = fixture.project("acme").await;
    let by = PrincipalId::new(&fixture.context);
    let now = fixture.context.now();
    for name in ["A", "B"] {
        set(fixture, &secret(fixture, project, name), b"value", "k1").await.unwrap();
    }
    let delete = move |name: &'static str| {
        fixture.store.write(move |unit| {
            Box::pin(async move {
                let found = secrets::find(unit, project, name).await?.unwrap();
                Ok::<_, Error>(secrets::delete(unit, found.id, by, now).await?)
            })
        })
    };
    delete("A").await.unwrap();
    assert_eq!(sealed(fixture, project, "A").await, None);
    set(fixture, &secret(fixture, project, "A"), b"again", "k1").await.unwrap();
    assert_eq!(sealed(fixture, project, "A").await, Some((1, b"again".to_vec())));
    let count = || fixture.store.read(|unit| Box::pin(async move { secrets::count(unit).await }));
    assert_eq!(count().await.unwrap(), 2);
    let gone = fixture.store.write(move |unit| Box::pin(async move { secrets::delete_of(unit, project, by, now).await })).await.unwrap();
    assert_eq!((gone, count().await.unwrap()), (2, 0), "a project that goes takes its values along");
    let page = PageRequest { limit: 10, after: None };
    let left = fixture.store.read(move |unit| Box::pin(async move { secrets::list(unit, project, &page).await })).await.unwrap();
    assert_eq!(left, []);
}

pub async fn values_are_wrapped_anew_unless_they_were_set_meanwhile(fixture: &Fixture) {
    let project = fixture.project("acme").await;
    let (a, b) = (secret(fixture, project, "A"), secret(fixture, project, "B"));
    set(fixture, &a, b"old a", "k1").await.unwrap();
    set(fixture, &b, b"old b", "k1").await.unwrap();
    let others = || fixture.store.read(|unit| Box::pin(async move { secrets::sealed_by_others(unit, "k2", None).await }));
    let found = others().await.unwrap();
    assert_eq!(found.iter().map(|found| found.secret.name.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    let after = found[0].secret.id;
    let rest = fixture.store.read(move |unit| Box::pin(async move { secrets::sealed_by_others(unit, "k2", Some(after)).await })).await;
    assert_eq!(rest.unwrap().len(), 1);
    // Between the look and the write, B gets another value under the new key.
    set(fixture, &Secret { version: 2, ..b.clone() }, b"new b", "k2").await.unwrap();
    for id in [a.id, b.id] {
        let write = fixture.store.write(move |unit| Box::pin(async move { secrets::rewrap(unit, id, 1, b"wrapped", "k2").await }));
        write.await.unwrap();
    }
    assert_eq!(sealed(fixture, project, "A").await, Some((1, b"wrapped".to_vec())));
    assert_eq!(sealed(fixture, project, "B").await, Some((2, b"new b".to_vec())));
    assert!(others().await.unwrap().is_empty());
    let projects = fixture.store.read(|unit| Box::pin(async move { secrets::projects(unit).await })).await.unwrap();
    assert_eq!(projects, [project]);
    let given_up = fixture.store.write(|unit| Box::pin(async move { secrets::abandon(unit).await })).await.unwrap();
    assert_eq!((given_up, sealed(fixture, project, "A").await), (2, None));
}

/// Whoever seals with the key that is stored, and whoever changes it, are one after the other.
pub async fn nobody_seals_with_a_key_that_is_left_behind(fixture: &Fixture) {
    let project = fixture.project("acme").await;
    fixture.store.write(|unit| Box::pin(async move { settings::set(unit, settings::MASTER_KEY, "k1").await })).await.unwrap();
    let set_many = async {
        for number in 0..20 {
            let secret = secret(fixture, project, &format!("S{number}"));
            let write = fixture.store.write(move |unit| {
                Box::pin(async move {
                    let key = settings::get_locked(unit, settings::MASTER_KEY).await?.unwrap();
                    Ok::<_, Error>(secrets::set(unit, &secret, b"value", &key).await?)
                })
            });
            write.await.unwrap();
        }
    };
    let change = async {
        fixture.store.write(|unit| Box::pin(async move { settings::set(unit, settings::MASTER_KEY, "k2").await })).await.unwrap();
        // From here on nothing appears under the key before.
        let look = || fixture.store.read(|unit| Box::pin(async move { secrets::sealed_by_others(unit, "k2", None).await }));
        let before = look().await.unwrap().len();
        for _ in 0..20 {
            assert_eq!(look().await.unwrap().len(), before);
        }
    };
    tokio::join!(set_many, change);
}
