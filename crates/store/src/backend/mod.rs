//! The two databases behind one trait.

pub(crate) mod postgres;
pub(crate) mod sqlite;

use futures::future::BoxFuture;

use crate::error::Result;
use crate::unit::{Dialect, Unit};

/// A unit of work without its type: it says whether to commit.
pub(crate) type Work = Box<dyn for<'t> FnOnce(&'t mut Unit) -> BoxFuture<'t, bool> + Send>;

/// What a store needs of a database. `Ok` means that the work was run to its end and, where it said so, committed durably.
pub(crate) trait Database: Send + Sync {
    fn write(&self, work: Work) -> BoxFuture<'_, Result<()>>;
    fn read(&self, work: Work) -> BoxFuture<'_, Result<()>>;
    /// A read that is over in no time.
    fn glance(&self, work: Work) -> BoxFuture<'_, Result<()>> {
        self.read(work)
    }
    fn snapshot(&self, work: Work) -> BoxFuture<'_, Result<()>>;
    fn dialect(&self) -> Dialect;
    fn close(&self) -> BoxFuture<'_, ()>;
}
