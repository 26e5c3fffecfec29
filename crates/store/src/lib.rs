//! Durable state: every SQL statement stands once and runs on SQLite and on PostgreSQL.
//!
//! A use case gets a [`Unit`]: what it changes in it commits together or not at all. On SQLite one thread writes, and units that wait share
//! one commit; on PostgreSQL each unit is a transaction.

pub mod api_keys;
pub mod audit;
mod backend;
pub mod backup;
pub mod checkpoints;
mod clock;
pub mod desks;
pub mod environments;
mod error;
pub mod hosts;
pub mod idempotency;
pub mod leases;
pub mod maintenance;
pub mod members;
mod migrations;
pub mod principals;
pub mod processes;
pub mod projects;
pub mod sandboxes;
pub mod secrets;
pub mod settings;
mod sql;
pub mod tickets;
mod unit;
mod value;
pub mod versions;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use backend::{Database, Work};
pub use clock::MachineClock;
pub use error::{Result, StoreError};
pub use sql::Sql;
pub use unit::{Dialect, Unit};
pub use value::{Row, RowReader, Value};

/// Where the state is kept.
#[derive(Clone)]
pub enum Location {
    Sqlite(PathBuf),
    Postgres(String),
}

/// A handle on the store; cheap to clone.
#[derive(Clone)]
pub struct Store {
    database: Arc<dyn Database>,
}

/// What becomes of a store whose schema is older than this binary's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    BringUpToDate,
    /// It is refused: whoever only reads must not change it for those who still use it.
    LeaveAsItIs,
}

/// Opens a store and brings its schema up to date. With [`open_as_it_is`], the only way to a database.
pub async fn open(location: &Location) -> Result<Store> {
    open_with(location, Schema::BringUpToDate, clock::BootClock::shared()?).await
}

/// Opens a store that has this binary's schema, and changes nothing.
pub async fn open_as_it_is(location: &Location) -> Result<Store> {
    open_with(location, Schema::LeaveAsItIs, clock::BootClock::shared()?).await
}

/// Like [`open`], with another clock than the machine's.
pub async fn open_with_clock(location: &Location, clock: Arc<dyn MachineClock>) -> Result<Store> {
    open_with(location, Schema::BringUpToDate, clock).await
}

async fn open_with(location: &Location, schema: Schema, clock: Arc<dyn MachineClock>) -> Result<Store> {
    let database: Arc<dyn Database> = match location {
        Location::Sqlite(path) => Arc::new(backend::sqlite::Sqlite::open(path, schema, clock).await?),
        Location::Postgres(url) => Arc::new(backend::postgres::Postgres::open(url, schema, clock).await?),
    };
    Ok(Store { database })
}

impl Store {
    /// Runs a unit of work that may change things. An `Err` from the closure rolls everything in it back. The future must await nothing
    /// but the unit: on SQLite it is polled once, on the one thread that writes.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Unit) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (slot, work) = into_slot(work);
        self.database.write(work).await.map_err(E::from)?;
        take(&slot)
    }

    /// Runs statements that only read. Each sees the newest committed state.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Unit) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (slot, work) = into_slot(work);
        self.database.read(work).await.map_err(E::from)?;
        take(&slot)
    }

    /// Like [`Store::read`], for a few rows that are found by their keys: what is done sooner than handed to somebody else.
    pub async fn glance<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Unit) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (slot, work) = into_slot(work);
        self.database.glance(work).await.map_err(E::from)?;
        take(&slot)
    }

    /// Like [`Store::read`], with all statements on one state.
    pub async fn snapshot<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Unit) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (slot, work) = into_slot(work);
        self.database.snapshot(work).await.map_err(E::from)?;
        take(&slot)
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        self.read(|unit| Box::pin(async move { unit.fetch("SELECT 1", &[]).await.map(drop) })).await
    }

    pub fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    /// Waits for what is under way and closes the files or connections.
    pub async fn close(&self) {
        self.database.close().await;
    }
}

type Slot<T, E> = Arc<Mutex<Option<Result<T, E>>>>;

/// Wraps a typed closure so that a backend, which cannot know the type, can run it: the outcome goes to the slot, and the backend learns
/// only whether to commit.
fn into_slot<T, E, F>(work: F) -> (Slot<T, E>, Work)
where
    F: for<'t> FnOnce(&'t mut Unit) -> BoxFuture<'t, Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let slot: Slot<T, E> = Arc::new(Mutex::new(None));
    let filled = Arc::clone(&slot);
    let work: Work = Box::new(move |unit| {
        let future = work(unit);
        Box::pin(async move {
            let outcome = future.await;
            let commit = outcome.is_ok();
            *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            commit
        })
    });
    (slot, work)
}

fn take<T, E: From<StoreError>>(slot: &Slot<T, E>) -> Result<T, E> {
    let outcome = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.unwrap_or_else(|| Err(StoreError::Broken("a unit of work ended without an outcome".to_owned()).into()))
}
