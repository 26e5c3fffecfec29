//! PostgreSQL: a pool; each unit that writes is one READ COMMITTED transaction with explicit row locks.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgPool};

use crate::backend::{Database, Work};
use crate::clock::MachineClock;
use crate::error::{Result, StoreError};
use crate::unit::{Connection, Dialect, Unit};
use crate::{Schema, migrations};

const CONNECTIONS: u32 = 24;
/// How long a database may take to answer when a server starts.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one that refuses is tried again: it may be starting too.
const STARTING: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Postgres {
    pool: PgPool,
    clock: Arc<dyn MachineClock>,
}

impl Postgres {
    pub(crate) async fn open(url: &str, schema: Schema, clock: Arc<dyn MachineClock>) -> Result<Self> {
        let options = guarded(url)?;
        reach(&options).await?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(Duration::from_secs(5))
            .idle_timeout(Duration::from_secs(300))
            .connect_with(options)
            .await
            .map_err(error)?;
        let mut unit = Unit::new(Connection::PostgresTransaction(pool.begin().await.map_err(error)?), Arc::clone(&clock));
        // Servers that start together migrate one after the other; the lock ends with the transaction.
        unit.query("SELECT CAST(pg_advisory_xact_lock(7234917) AS TEXT)", &[]).await?;
        migrations::prepare(&mut unit, schema).await?;
        finish(unit, true).await?;
        Ok(Self { pool, clock })
    }
}

/// Connects once by itself: a pool tries until its time is over, and then tells of the time and not of the reason.
async fn reach(options: &PgConnectOptions) -> Result<()> {
    let deadline = tokio::time::Instant::now() + STARTING;
    loop {
        let failure = match tokio::time::timeout(PATIENCE, options.connect()).await {
            Ok(Ok(connection)) => {
                let _ = connection.close().await;
                return Ok(());
            }
            Ok(Err(failure)) => failure,
            Err(_) => sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()),
        };
        if !may_be_starting(&failure) || tokio::time::Instant::now() > deadline {
            return Err(unreachable(options, &failure));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn may_be_starting(failure: &sqlx::Error) -> bool {
    match failure {
        sqlx::Error::Io(cause) => cause.kind() == std::io::ErrorKind::ConnectionRefused,
        sqlx::Error::Database(cause) => cause.code().as_deref() == Some("57P03"),
        _ => false,
    }
}

/// What an operator needs to know. Nothing of it is the password: it is in neither the server's messages nor the options that are shown.
fn unreachable(options: &PgConnectOptions, failure: &sqlx::Error) -> StoreError {
    use std::io::ErrorKind;
    let (host, port) = (options.get_host(), options.get_port());
    let at = match options.get_socket() {
        Some(socket) => format!("PostgreSQL at the socket in {}, port {port}", socket.display()),
        None => format!("PostgreSQL at {host}, port {port}"),
    };
    let (user, database) = (options.get_username(), options.get_database().unwrap_or_else(|| options.get_username()));
    let (cause, next) = match failure {
        sqlx::Error::Io(cause) => match cause.kind() {
            ErrorKind::ConnectionRefused => {
                ("the connection is refused".to_owned(), "start PostgreSQL, or check host and port in --database")
            }
            ErrorKind::NotFound => ("there is no such socket".to_owned(), "start PostgreSQL, or check the path in --database"),
            ErrorKind::TimedOut => (
                format!("nothing answers within {} seconds", PATIENCE.as_secs()),
                "check host and port in --database, and whether a firewall is between",
            ),
            // The resolver's errors have no kind of their own.
            _ if cause.to_string().contains("lookup address") => {
                ("the host is unknown".to_owned(), "check the host in --database, and that names can be resolved here")
            }
            _ => (cause.to_string(), "check host and port in --database"),
        },
        sqlx::Error::Database(cause) => match cause.code().as_deref() {
            Some("28P01") => (format!("it does not accept the password of user {user}"), "check user and password in --database"),
            Some("28000") => (
                format!("it does not let user {user} in: {}", cause.message()),
                "check the user in --database, and what pg_hba.conf of that server allows",
            ),
            Some("3D000") => (format!("it has no database {database}"), "make it with createdb, or name another in --database"),
            Some("42501") => (
                format!("user {user} may not use database {database}: {}", cause.message()),
                "grant it, or name another user in --database",
            ),
            _ => (cause.message().to_owned(), "look into that server's log"),
        },
        sqlx::Error::Tls(cause) => (format!("TLS cannot be used with it: {cause}"), "check sslmode and sslrootcert in --database"),
        other => (other.to_string(), "check --database"),
    };
    StoreError::Unreachable { at, cause, next }
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
    let Unit(connection, _, _kept) = unit;
    match connection {
        Connection::PostgresTransaction(transaction) if commit => transaction.commit().await.map_err(error),
        Connection::PostgresTransaction(transaction) => transaction.rollback().await.map_err(error),
        _ => Ok(()),
    }
}

/// To the end also when nobody waits for it any more: what is kept until then must not go before.
#[expect(clippy::disallowed_methods, reason = "closing the pool waits for its connection, and so for it")]
async fn finish_surely(unit: Unit, commit: bool) -> Result<()> {
    let finished = tokio::spawn(finish(unit, commit)).await;
    finished.unwrap_or_else(|lost| Err(StoreError::Unavailable(lost.to_string())))
}

impl Database for Postgres {
    fn write(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut unit = Unit::new(Connection::PostgresTransaction(self.pool.begin().await.map_err(error)?), Arc::clone(&self.clock));
            let commit = work(&mut unit).await;
            match finish_surely(unit, commit).await {
                // What was to be undone is undone by the end of the connection too; the work's own error says more.
                Err(_) if !commit => Ok(()),
                outcome => outcome,
            }
        })
    }

    fn read(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut unit = Unit::new(Connection::PostgresReader(self.pool.acquire().await.map_err(error)?), Arc::clone(&self.clock));
            work(&mut unit).await;
            Ok(())
        })
    }

    fn snapshot(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut unit = Unit::new(Connection::PostgresTransaction(self.pool.begin().await.map_err(error)?), Arc::clone(&self.clock));
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
