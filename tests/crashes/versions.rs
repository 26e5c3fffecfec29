//! A store that a newer Stead wrote is left alone.

use stead_store::{Location, StoreError};
use stead_testing::PrivatePostgres;

use super::create;
use crate::support::Server;

const NEWER: &str = "INSERT INTO schema_migrations (version, name) VALUES (4711, 'from the future')";

fn refused(server: &Server, arguments: &[&str]) {
    let Err((status, stderr)) = Server::builder().on(server.directory()).with(arguments).try_start() else {
        panic!("an older server took a newer store")
    };
    assert_eq!(status, 3, "{stderr}");
    let last = stderr.lines().rev().take(5).collect::<Vec<_>>().join("\n");
    assert!(last.contains("4711") && last.contains("up to 7"), "both versions are named: {last}");
    assert!(last.contains("install") && last.contains("backup"), "and what to do: {last}");
}

#[test]
fn an_older_binary_refuses_a_newer_store_on_sqlite() {
    let mut server = Server::start();
    assert_eq!(create(&server.http(), "kept").unwrap().status, 201);
    assert_eq!(server.terminate(), Some(0));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let edit = |statement: &'static str| {
        runtime.block_on(async {
            let store = stead_store::open(&Location::Sqlite(server.path().join("stead.db"))).await?;
            store.write(move |unit| Box::pin(async move { unit.execute(statement, &[]).await })).await?;
            store.close().await;
            Ok::<_, StoreError>(())
        })
    };
    edit(NEWER).unwrap();
    refused(&server, &[]);
    let backup = server.path().join("refused.backup");
    let output = server.command(&["backup"]).arg(&backup).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(!backup.exists());
    assert!(matches!(edit("SELECT 1"), Err(StoreError::TooNew { store: 4711, binary: 7 })));
}

#[test]
fn an_older_binary_refuses_a_newer_store_on_postgres() {
    let postgres = PrivatePostgres::start();
    let url = postgres.url();
    let mut server = Server::builder().with(&["--database", &url]).start();
    assert_eq!(create(&server.http(), "kept").unwrap().status, 201);
    assert_eq!(server.terminate(), Some(0));
    postgres.sql(NEWER);
    refused(&server, &["--database", &url]);
    // Nothing was touched: the binary that knows the schema finds everything.
    postgres.sql("DELETE FROM schema_migrations WHERE version = 4711");
    let server = Server::builder().on(server.directory()).with(&["--database", &url]).start();
    assert_eq!(create(&server.http(), "kept").unwrap().header("idempotent-replayed"), Some("true"));
}

#[test]
fn a_backup_leaves_an_older_store_as_it_is() {
    const OLDER: &str = "UPDATE schema_migrations SET version = -version";
    let postgres = PrivatePostgres::start();
    let url = postgres.url();
    for arguments in [&[][..], &["--database", &url]] {
        let mut server = Server::builder().with(arguments).start();
        let location = match arguments {
            [_, url] => Location::Postgres((*url).to_owned()),
            _ => Location::Sqlite(server.path().join("stead.db")),
        };
        assert_eq!(server.terminate(), Some(0));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let store = stead_store::open(&location).await.unwrap();
            store.write(move |unit| Box::pin(async move { unit.execute(OLDER, &[]).await })).await.unwrap();
            store.close().await;
        });
        let backup = server.path().join("refused.backup");
        let output = server.command(&["backup"]).arg(&backup).args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("store_too_old") && said.contains("schema version -1") && said.contains("hint:"), "{said}");
        assert!(!backup.exists());
        let again = runtime.block_on(stead_store::open_as_it_is(&location));
        assert!(matches!(again, Err(StoreError::TooOld { store: -1, .. })), "nothing was brought up to date");
    }
}

#[test]
fn a_backup_of_nothing_makes_no_store() {
    let postgres = PrivatePostgres::start();
    let directory = tempfile::tempdir().unwrap();
    let mut command = crate::support::stead();
    command.args(["backup", "--database", &postgres.url(), "--data-dir"]).arg(directory.path()).arg(directory.path().join("none.backup"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(postgres.sql("SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'").trim(), "0");
}
