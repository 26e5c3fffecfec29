//! What went wrong, at which step.

use std::io;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step on our side of the namespaces.
    #[error("{step}: {cause}")]
    Outside { step: String, cause: io::Error },
    /// A step of the place's own first process.
    #[error("inside the place, {0}")]
    Inside(String),
    /// Only a process with one thread may go on as two.
    #[error("the calling process has {0} threads, and may have one only")]
    Threads(u64),
    /// This host cannot do it.
    #[error("{what} cannot be kept in bounds here: {why}")]
    Unavailable { what: &'static str, why: String },
    /// The place has ended.
    #[error("the place has ended")]
    Ended,
}

/// Names the step that failed.
pub(crate) trait Step<T> {
    fn step(self, step: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Step<T> for std::result::Result<T, E> {
    fn step(self, step: impl Into<String>) -> Result<T> {
        self.map_err(|cause| Error::Outside { step: step.into(), cause: cause.into() })
    }
}
