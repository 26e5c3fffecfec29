//! PostgreSQL: a pool; each unit that writes is one READ COMMITTED transaction with explicit row locks.

use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::backend::{Database, Work};
use crate::error::{Result, StoreError};
use crate::migrations;
use crate::unit::{Connection, Dialect, Unit};

const CONNECTIONS: u32 = 24;

pub(crate) struct Postgres {
    pool: PgPool,
}

impl Postgres {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(Duration::from_secs(5))
            .idle_timeout(Duration::from_secs(300))
            .connect_with(guarded(url)?)
            .await
            .map_err(error)?;
        let mut unit = Unit(Connection::PostgresTransaction(pool.begin().await.map_err(error)?));
        // Servers that start together migrate one after the other; the lock ends with the transaction.
        unit.query("SELECT CAST(pg_advisory_xact_lock(7234917) AS TEXT)", &[]).await?;
        migrations::run(&mut unit).await?;
        finish(unit, true).await?;
        Ok(Self { pool })
    }
}

/// A session never waits for ever, and a commit that was answered is on the disk whatever the server's own setting is.
fn guarded(url: &str) -> Result<PgConnectOptions> {
    let options: PgConnectOptions = url.parse().map_err(|_| StoreError::Unavailable("the database URL cannot be understood".to_owned()))?;
    Ok(options.options([
        ("lock_timeout", "15s"),
        ("statement_timeout", "60s"),
        ("idle_in_transaction_session_timeout", "120s"),
        ("synchronous_commit", "on"),
    ]))
}

async fn finish(unit: Unit, commit: bool) -> Result<()> {
    match unit.0 {
        Connection::PostgresTransaction(transaction) if commit => transaction.commit().await.map_err(error),
        Connection::PostgresTransaction(transaction) => transaction.rollback().await.map_err(error),
        _ => Ok(()),
    }
}

impl Database for Postgres {
    fn write(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut unit = Unit(Connection::PostgresTransaction(self.pool.begin().await.map_err(error)?));
            let commit = work(&mut unit).await;
            match finish(unit, commit).await {
                // What was to be undone is undone by the end of the connection too; the work's own error says more.
                Err(_) if !commit => Ok(()),
                outcome => outcome,
            }
        })
    }

    fn read(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut unit = Unit(Connection::PostgresReader(self.pool.acquire().await.map_err(error)?));
            work(&mut unit).await;
            Ok(())
        })
    }

    fn snapshot(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut unit = Unit(Connection::PostgresTransaction(self.pool.begin().await.map_err(error)?));
            unit.batch("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
            work(&mut unit).await;
            finish(unit, true).await
        })
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.pool.close())
    }
}

pub(crate) fn error(error: sqlx::Error) -> StoreError {
    let text = error.to_string();
    let Some(failure) = error.as_database_error() else {
        return match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) | sqlx::Error::Decode(_) => StoreError::Broken(text),
            // Everything between here and the server: refused, cut off, timed out, closed.
            _ => StoreError::Unavailable(text),
        };
    };
    match failure.code().as_deref().unwrap_or_default() {
        "23505" => StoreError::Duplicate(text),
        "23503" => StoreError::MissingReference(text),
        "53100" | "25006" => StoreError::StorageFull(text),
        code if code.starts_with("08") || code.starts_with("53") || code.starts_with("57") || code.starts_with("40") => {
            StoreError::Unavailable(text)
        }
        _ => StoreError::Broken(text),
    }
}
