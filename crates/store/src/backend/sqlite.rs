//! SQLite: one thread writes, a few read. What is found by its key is read by whoever asks: to wake another thread for it and be woken again
//! takes several times as long.
//!
//! The writer takes all units that wait, runs each as a savepoint of one transaction, commits once and then answers them: many callers share one fsync.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc as blocking};
use std::thread::JoinHandle;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::backend::{Database, Work};
use crate::clock::MachineClock;
use crate::error::{Result, StoreError};
use crate::unit::{Connection, Dialect, Unit};
use crate::{Schema, migrations};

// Older ones can corrupt a file in WAL mode with several connections (the WAL-reset race); a dependency must not bring one back unnoticed.
const _: () = assert!(libsqlite3_sys::SQLITE_VERSION_NUMBER >= 3_051_003, "SQLite 3.51.3 or newer is needed");

/// Units that share one commit, at most. More would make the first of them wait longer than the fsync they save.
const GROUP: usize = 128;
const READERS: usize = 4;
/// As many glances at a time; further ones take their turn with the readers.
const AT_HAND: usize = 4;

struct Job {
    work: Work,
    reply: oneshot::Sender<Result<()>>,
}

pub(crate) struct Sqlite {
    writer: Mutex<Option<mpsc::UnboundedSender<Job>>>,
    readers: Mutex<Option<blocking::Sender<Job>>>,
    /// For glances, which are had on the caller's own thread.
    at_hand: Vec<Mutex<Option<Unit>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Sqlite {
    pub(crate) async fn open(path: &Path, schema: Schema, clock: Arc<dyn MachineClock>) -> Result<Self> {
        let path = path.to_owned();
        let mut unit = Unit::new(Connection::Sqlite(connect_writer(&path)?), Arc::clone(&clock));
        migrations::prepare(&mut unit, schema).await?;

        let mut threads = Vec::new();
        let (writer, jobs) = mpsc::unbounded_channel();
        threads.push(spawn("store-writer", move || write_groups(unit, jobs))?);

        let (readers, jobs) = blocking::channel();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..READERS {
            let mut unit = Unit::new(Connection::Sqlite(connect_reader(&path)?), Arc::clone(&clock));
            let jobs = Arc::clone(&jobs);
            threads.push(spawn("store-reader", move || read_jobs(&mut unit, &jobs))?);
        }
        let reader = || Ok(Unit::new(Connection::Sqlite(connect_reader(&path)?), Arc::clone(&clock)));
        let at_hand = (0..AT_HAND).map(|_| Ok(Mutex::new(Some(reader()?)))).collect::<Result<_>>()?;
        Ok(Self { writer: Mutex::new(Some(writer)), readers: Mutex::new(Some(readers)), at_hand, threads: Mutex::new(threads) })
    }

    /// Runs work here and now, or gives it back when every connection is in use.
    fn here(&self, work: Work) -> std::result::Result<Result<()>, Work> {
        for unit in &self.at_hand {
            let Ok(mut unit) = unit.try_lock() else { continue };
            return match &mut *unit {
                Some(unit) => Ok(poll_once(unit, work).map(drop)),
                None => Err(work),
            };
        }
        Err(work)
    }

    fn read_work(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        let (reply, answer) = oneshot::channel();
        let sent = match &*self.readers.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(readers) => readers.send(Job { work, reply }).is_ok(),
            None => false,
        };
        wait(sent, answer)
    }
}

impl Database for Sqlite {
    fn write(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        let (reply, answer) = oneshot::channel();
        let sent = match &*self.writer.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(writer) => writer.send(Job { work, reply }).is_ok(),
            None => false,
        };
        wait(sent, answer)
    }

    fn read(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        self.read_work(work)
    }

    fn glance(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        match self.here(work) {
            Ok(outcome) => Box::pin(std::future::ready(outcome)),
            Err(work) => self.read_work(work),
        }
    }

    fn snapshot(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        self.read_work(Box::new(move |unit| {
            Box::pin(async move {
                // The first statement fixes the state that all of them see.
                let begun = unit.batch("BEGIN DEFERRED").await.is_ok();
                let outcome = work(unit).await;
                if begun && unit.batch("COMMIT").await.is_err() {
                    let _ = unit.batch("ROLLBACK").await;
                }
                outcome
            })
        }))
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).take();
        for unit in &self.at_hand {
            unit.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(async move {
            // Ends as soon as the channels are empty: no unit that was taken on is dropped.
            let _ = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join()))).await;
        })
    }
}

fn wait(sent: bool, answer: oneshot::Receiver<Result<()>>) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        if !sent {
            return Err(StoreError::Unavailable("the store is closed".to_owned()));
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the store was closed before it answered".to_owned())))
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|error| StoreError::Unavailable(error.to_string()))
}

#[expect(clippy::disallowed_methods, reason = "this is the one function that the others must go through")]
fn connect(path: &PathBuf) -> Result<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(path).map_err(error)?;
    connection.set_prepared_statement_cache_capacity(256);
    connection
        .execute_batch(
            "PRAGMA busy_timeout = 5000;
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA trusted_schema = OFF;",
        )
        .map_err(error)?;
    Ok(connection)
}

/// What a savepoint would have to restore stays in memory: a creation touches more pages than SQLite keeps there by itself, and would make a
/// file for them each time.
fn connect_writer(path: &PathBuf) -> Result<rusqlite::Connection> {
    let connection = connect(path)?;
    connection.execute_batch("PRAGMA temp_store = MEMORY;").map_err(error)?;
    Ok(connection)
}

fn connect_reader(path: &PathBuf) -> Result<rusqlite::Connection> {
    let connection = connect(path)?;
    connection.execute_batch("PRAGMA query_only = ON;").map_err(error)?;
    Ok(connection)
}

fn write_groups(mut unit: Unit, mut jobs: mpsc::UnboundedReceiver<Job>) {
    while let Some(first) = jobs.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP
            && let Ok(job) = jobs.try_recv()
        {
            group.push(job);
        }
        write_group(&mut unit, group);
    }
}

fn write_group(unit: &mut Unit, group: Vec<Job>) {
    if let Err(failure) = now(unit.batch("BEGIN IMMEDIATE")) {
        group.into_iter().for_each(|job| drop(job.reply.send(Err(failure.clone()))));
        unit.2.clear();
        return;
    }
    let mut outcomes = Vec::with_capacity(group.len());
    let mut lost = None;
    for Job { work, reply } in group {
        let outcome = match &lost {
            None => run_in_savepoint(unit, work).unwrap_or_else(|failure| {
                // What could not be undone must not be committed with the others.
                lost = Some(failure.clone());
                Err(failure)
            }),
            Some(failure) => Err(StoreError::clone(failure)),
        };
        // A full disk inside a savepoint rolls back the whole transaction: then nobody in the group has written anything.
        if lost.is_none() && is_autocommit(unit) {
            lost = Some(match &outcome {
                Err(failure @ StoreError::StorageFull(_)) => failure.clone(),
                _ => StoreError::Unavailable("the group of writes that this one was in was rolled back".to_owned()),
            });
        }
        outcomes.push((reply, outcome));
    }
    if lost.is_none()
        && let Err(failure) = now(unit.batch("COMMIT"))
    {
        lost = Some(failure);
    }
    if lost.is_some() && !is_autocommit(unit) {
        let _ = now(unit.batch("ROLLBACK"));
    }
    unit.2.clear();
    for (reply, outcome) in outcomes {
        let _ = reply.send(match &lost {
            Some(failure) => Err(failure.clone()),
            None => outcome,
        });
    }
}

/// The outer error means that the transaction is no longer what the others in the group believe.
fn run_in_savepoint(unit: &mut Unit, work: Work) -> Result<Result<()>> {
    now(unit.run("SAVEPOINT unit", &[]))?;
    let commit = poll_once(unit, work);
    match commit {
        Ok(true) => now(unit.run("RELEASE unit", &[])).map(|_| Ok(())),
        Ok(false) | Err(_) => {
            if !is_autocommit(unit) {
                now(unit.run("ROLLBACK TO unit", &[]))?;
                now(unit.run("RELEASE unit", &[]))?;
            }
            Ok(commit.map(drop))
        }
    }
}

fn read_jobs(unit: &mut Unit, jobs: &Mutex<blocking::Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { work, reply }) = job else { return };
        let outcome = poll_once(unit, work).map(drop);
        let _ = reply.send(outcome);
    }
}

/// Runs the work to its end on this thread. It awaits nothing but the unit, which is always ready here.
fn poll_once(unit: &mut Unit, work: Work) -> Result<bool> {
    match std::panic::catch_unwind(AssertUnwindSafe(|| work(unit).now_or_never())) {
        Ok(Some(commit)) => Ok(commit),
        Ok(None) => Err(StoreError::Broken("a unit of work awaited something other than its unit".to_owned())),
        Err(_) => Err(StoreError::Broken("a unit of work panicked".to_owned())),
    }
}

fn now<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    future.now_or_never().unwrap_or_else(|| Err(StoreError::Broken("SQLite did not answer at once".to_owned())))
}

fn is_autocommit(unit: &Unit) -> bool {
    matches!(&unit.0, Connection::Sqlite(connection) if connection.is_autocommit())
}

/// Statements are written with `$1`, which SQLite would take for a name: here it becomes `?1`.
pub(crate) fn placeholders(sql: &str) -> Cow<'_, str> {
    if sql.contains('$') { Cow::Owned(sql.replace('$', "?")) } else { Cow::Borrowed(sql) }
}

pub(crate) fn error(error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    let text = error.to_string();
    match error.sqlite_error() {
        Some(failure) => match failure.code {
            ErrorCode::ConstraintViolation => match failure.extended_code {
                rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY => StoreError::Duplicate(text),
                rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY => StoreError::MissingReference(text),
                _ => StoreError::Broken(text),
            },
            ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied => StoreError::StorageFull(text),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Unavailable(text),
            _ => StoreError::Broken(text),
        },
        None => StoreError::Broken(text),
    }
}
