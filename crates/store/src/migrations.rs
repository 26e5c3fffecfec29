//! Numbered migrations, in pairs: the same number brings both databases to the same columns. An applied one is never edited.

use std::cmp::Ordering;

use crate::Schema;
use crate::error::{Result, StoreError};
use crate::unit::{Dialect, Unit};
use crate::value::Value;

struct Migration {
    version: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! migrations {
    ($($version:literal, $name:literal;)*) => {
        const MIGRATIONS: &[Migration] = &[$(Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../migrations/postgres/", $name, ".sql")),
        },)*];
    };
}

migrations! {
    1, "0001_foundation";
    2, "0002_processes";
    3, "0003_setup";
    4, "0004_checkpoints";
    5, "0005_leases";
    6, "0006_secrets";
    7, "0007_repository_grants";
}

/// The newest schema that this binary knows.
pub(crate) fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

pub(crate) async fn prepare(unit: &mut Unit, schema: Schema) -> Result<()> {
    match schema {
        Schema::BringUpToDate => run(unit).await,
        Schema::LeaveAsItIs => check(unit).await,
    }
}

/// Brings the schema up to date, or refuses a store that a newer binary wrote.
async fn run(unit: &mut Unit) -> Result<()> {
    unit.batch("CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)").await?;
    let present = current(unit).await?;
    if present > newest() {
        return Err(StoreError::TooNew { store: present, binary: newest() });
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > present) {
        match unit.dialect() {
            Dialect::Sqlite => {
                unit.batch("BEGIN IMMEDIATE").await?;
                let outcome = apply(unit, migration, migration.sqlite).await;
                unit.batch(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
                outcome?;
            }
            // Already inside one transaction, with a lock that keeps other servers out.
            Dialect::Postgres => apply(unit, migration, migration.postgres).await?,
        }
    }
    Ok(())
}

/// Changes nothing: whether the schema is the one that this binary knows.
async fn check(unit: &mut Unit) -> Result<()> {
    let known = match unit.dialect() {
        Dialect::Sqlite => unit.query("SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'", &[]).await?,
        Dialect::Postgres => unit.query("SELECT CAST(to_regclass('schema_migrations') AS TEXT)", &[]).await?,
    };
    let known = known.first().map_or(Ok(None), |row| row.reader().optional_text())?.is_some();
    let present = if known { current(unit).await? } else { 0 };
    match present.cmp(&newest()) {
        Ordering::Less => Err(StoreError::TooOld { store: present, binary: newest() }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(StoreError::TooNew { store: present, binary: newest() }),
    }
}

async fn apply(unit: &mut Unit, migration: &Migration, sql: &'static str) -> Result<()> {
    // Another process may have been faster; on SQLite the lock was taken only now.
    if current(unit).await? >= migration.version {
        return Ok(());
    }
    unit.batch(sql).await?;
    unit.run("INSERT INTO schema_migrations (version, name) VALUES ($1, $2)", &[migration.version.into(), migration.name.into()]).await?;
    Ok(())
}

/// The schema version of the store; 0 for an empty one.
pub(crate) async fn current(unit: &mut Unit) -> Result<i64> {
    let rows = unit.query("SELECT COALESCE(MAX(version), 0) FROM schema_migrations", &[] as &[Value]).await?;
    rows.first().map_or(Ok(0), |row| row.reader().integer())
}
