//! Both migrations end in the same columns, and a backup holds all of them.

use std::collections::BTreeMap;

use stead_store::{Location, StoreError};
use stead_testing::PrivatePostgres;

use crate::fixtures::Fixture;

type Columns = BTreeMap<String, Vec<String>>;

async fn columns(fixture: &Fixture, sql: &'static str) -> Columns {
    let rows = fixture.store.read(move |unit| Box::pin(async move { unit.fetch(sql, &[]).await })).await.unwrap();
    let mut columns = Columns::new();
    for row in rows {
        let mut row = row.reader();
        let (table, column) = (row.text().unwrap(), row.text().unwrap());
        // The kind of a column: SQLite's INTEGER is PostgreSQL's bigint.
        let kind = row.text().unwrap().to_lowercase().replace("integer", "bigint").replace("blob", "bytea");
        let optional = row.integer().unwrap();
        columns.entry(table).or_default().push(format!("{column} {kind} {optional}"));
    }
    columns.values_mut().for_each(|columns| columns.sort());
    columns.remove("schema_migrations");
    columns
}

#[tokio::test]
async fn both_databases_end_in_the_same_columns_and_a_backup_holds_them() {
    let server = PrivatePostgres::start();
    let sqlite = columns(
        &Fixture::sqlite().await,
        "SELECT m.name, p.name, p.type, 1 - p.\"notnull\" FROM sqlite_schema m JOIN pragma_table_info(m.name) p WHERE m.type = 'table'",
    )
    .await;
    let postgres = columns(
        &Fixture::postgres(&server, "schema").await,
        "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), CAST(data_type AS TEXT),
         CASE is_nullable WHEN 'YES' THEN 1 ELSE 0 END FROM information_schema.columns WHERE table_schema = 'public'",
    )
    .await;
    assert_eq!(sqlite, postgres);
    let names: BTreeMap<String, Vec<String>> = sqlite
        .into_iter()
        .map(|(table, columns)| (table, columns.into_iter().map(|column| column.split(' ').next().unwrap().to_owned()).collect()))
        .collect();
    let mut backed_up: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (table, columns) in stead_store::backup::described() {
        let mut columns: Vec<String> = columns.into_iter().map(str::to_owned).collect();
        columns.sort();
        backed_up.insert(table.to_owned(), columns);
    }
    assert_eq!(names, backed_up);
}

async fn refuses_a_newer_store(fixture: Fixture) {
    fixture
        .store
        .write(|unit| {
            Box::pin(async move { unit.execute("INSERT INTO schema_migrations (version, name) VALUES (99, 'later')", &[]).await })
        })
        .await
        .unwrap();
    let again = stead_store::open(&fixture.location).await;
    assert!(matches!(again.err(), Some(StoreError::TooNew { store: 99, binary: 1.. })));
}

#[tokio::test]
async fn an_older_binary_refuses_a_newer_store_naming_both_versions() {
    refuses_a_newer_store(Fixture::sqlite().await).await;
    let server = PrivatePostgres::start();
    refuses_a_newer_store(Fixture::postgres(&server, "newer").await).await;
    let error: stead_domain::Error = StoreError::TooNew { store: 99, binary: 1 }.into();
    assert!(error.message().contains("99") && error.message().contains("up to 1"));
}

#[tokio::test]
async fn servers_that_start_together_migrate_once() {
    let server = PrivatePostgres::start();
    let location = Location::Postgres(server.database("together"));
    let opened = futures::future::join_all((0..6).map(|_| stead_store::open(&location))).await;
    assert!(opened.iter().all(Result::is_ok));
    let directory = tempfile::TempDir::new().unwrap();
    let location = Location::Sqlite(directory.path().join("stead.db"));
    let opened = futures::future::join_all((0..6).map(|_| stead_store::open(&location))).await;
    assert!(opened.iter().all(Result::is_ok));
}
