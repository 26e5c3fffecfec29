//! A backup holds everything, goes from one database to the other, and is never restored by half.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use stead_domain::ids::HostId;
use stead_domain::sandbox::FENCE_JUMP;
use stead_store::backup::{self, BackupError};
use stead_store::{environments, processes, sandboxes};
use stead_testing::PrivatePostgres;

use crate::fixtures::Fixture;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn dump(fixture: &Fixture) -> Vec<u8> {
    let out = Shared::default();
    backup::write(&fixture.store, out.clone(), fixture.context.now()).await.unwrap();
    out.0.lock().unwrap().clone()
}

/// Everything but the header's time and the fences.
fn comparable(dump: &[u8]) -> Vec<String> {
    String::from_utf8(dump.to_vec())
        .unwrap()
        .lines()
        .skip(1)
        .filter(|line| line.starts_with('[') && !line.starts_with("[\"sandboxes"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn a_backup_moves_between_databases_and_every_fence_jumps() {
    let server = PrivatePostgres::start();
    let source = Fixture::sqlite().await;
    let project = source.project("default").await;
    let environment = source.place(project, "web 日本").await.unwrap();
    let process = source.started(&environment, Some(HostId::new(&source.context))).await;
    for number in 0..1200 {
        source.place(project, &format!("e{number}")).await.unwrap();
    }
    let first = dump(&source).await;

    let postgres = Fixture::postgres(&server, "target").await;
    backup::restore(&postgres.store, Cursor::new(first.clone()), false).await.unwrap();
    let second = dump(&postgres).await;
    assert_eq!(comparable(&first), comparable(&second));

    let back = Fixture::sqlite().await;
    backup::restore(&back.store, Cursor::new(second), false).await.unwrap();
    let (id, sandbox, started) = (environment.id, environment.sandbox_id, process.id);
    let (found, fence, kept) = back
        .store
        .read(move |unit| {
            Box::pin(async move {
                Ok::<_, stead_domain::Error>((
                    environments::find_any(unit, id).await?,
                    sandboxes::find(unit, sandbox).await?.unwrap().fence,
                    processes::find_any(unit, started).await?,
                ))
            })
        })
        .await
        .unwrap();
    assert_eq!(found, Some(environment));
    assert_eq!(kept, Some(process));
    assert_eq!(fence, 2 * FENCE_JUMP);
}

#[tokio::test]
async fn a_damaged_or_foreign_backup_changes_nothing() {
    let source = Fixture::sqlite().await;
    let project = source.project("default").await;
    source.place(project, "web").await.unwrap();
    let whole = dump(&source).await;
    let text = String::from_utf8(whole.clone()).unwrap();

    let target = Fixture::sqlite().await;
    target.project("kept").await;
    let restore = |bytes: Vec<u8>, replace| backup::restore(&target.store, Cursor::new(bytes), replace);
    assert!(matches!(restore(whole.clone(), false).await, Err(BackupError::NotEmpty)));
    for cut in [1, whole.len() / 2, whole.len() - 2] {
        assert!(restore(whole[..cut].to_vec(), true).await.is_err(), "cut at {cut}");
    }
    assert!(matches!(restore(text.replace("\"web\"", "\"wob\"").into_bytes(), true).await, Err(BackupError::Damaged)));
    assert!(matches!(
        restore(text.replace("\"schema_version\":6", "\"schema_version\":7").into_bytes(), true).await,
        Err(BackupError::OtherVersion { .. })
    ));
    assert!(restore(b"hello\n".to_vec(), true).await.is_err());
    assert!(matches!(restore([whole.clone(), b"[]\n".to_vec()].concat(), true).await, Err(BackupError::Damaged)));
    let still =
        target.store.read(move |unit| Box::pin(async move { stead_store::projects::find_by_handle(unit, "kept").await })).await.unwrap();
    assert!(still.is_some());
    restore(whole, true).await.unwrap();
    let gone =
        target.store.read(move |unit| Box::pin(async move { stead_store::projects::find_by_handle(unit, "kept").await })).await.unwrap();
    assert!(gone.is_none());
}
