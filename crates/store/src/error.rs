//! What can go wrong with a store, and what a caller is told of it.

use stead_domain::{Code, Error};

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A row of that key is there already.
    #[error("duplicate row: {0}")]
    Duplicate(String),
    /// A row that this one points at is not there.
    #[error("a row points at one that is not there: {0}")]
    MissingReference(String),
    /// The database cannot be reached, is busy, or lost a group of writes; the same call may go through later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The database was never reached: where it should be, why not, and what may help.
    #[error("{at}: {cause}")]
    Unreachable { at: String, cause: String, next: &'static str },
    /// The disk is full or refuses writes.
    #[error("the store cannot write: {0}")]
    StorageFull(String),
    #[error("the store has schema version {store} and this binary knows only up to {binary}")]
    TooNew { store: i64, binary: i64 },
    #[error("the store has schema version {store} and this binary writes {binary}")]
    TooOld { store: i64, binary: i64 },
    /// A value that is not what this code wrote, or a statement that does not fit the schema: a fault of ours or a damaged file.
    #[error("{0}")]
    Broken(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Unavailable(_) => Self::new(Code::ServiceUnavailable, "the store cannot be reached at the moment")
                .suggestion("try again in a few seconds; `stead status` and the server's log say more")
                .cause(&error),
            StoreError::Unreachable { next, .. } => Self::new(Code::ServiceUnavailable, error.to_string()).suggestion(*next),
            StoreError::StorageFull(_) => Self::new(Code::StorageFull, "nothing can be written: the disk is full or read-only")
                .suggestion("free space under the data directory (`stead system df` shows what uses it, `stead prune` removes what is old), then try again")
                .cause(&error),
            StoreError::TooNew { store, binary } => Self::new(
                Code::StoreTooNew,
                format!("the store has schema version {store}, and this stead ({}) knows versions up to {binary}", env!("CARGO_PKG_VERSION")),
            )
            .detail("store_version", *store)
            .detail("binary_version", *binary)
            .suggestion("install the newer stead that wrote this store, or restore a backup that this one made"),
            StoreError::TooOld { store: 0, .. } => {
                Self::new(Code::NotFound, "it holds no store yet").suggestion("give --data-dir or --database of a server that has run")
            }
            StoreError::TooOld { store, binary } => Self::new(
                Code::StoreTooOld,
                format!("the store has schema version {store}, and this stead ({}) works with {binary}", env!("CARGO_PKG_VERSION")),
            )
            .detail("store_version", *store)
            .detail("binary_version", *binary)
            .suggestion("use the stead that wrote it, or start the server of this one, which brings the store up to date"),
            StoreError::Duplicate(_) => Self::new(Code::AlreadyExists, "it exists already").cause(&error),
            StoreError::MissingReference(_) | StoreError::Broken(_) => Self::internal(&error),
        }
    }
}
