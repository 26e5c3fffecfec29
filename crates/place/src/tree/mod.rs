//! Trees as tar archives, both ways. Whoever unpacks trusts an archive with nothing: it may come from inside an environment, or go there.

mod below;
mod packing;
pub(crate) mod private;
mod tape;
pub(crate) mod trouble;
mod unpacking;

pub use packing::Packing;
pub use unpacking::unpack;

/// What went into an archive, or came out of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Entries.
    pub count: u64,
    /// Bytes of the files among them.
    pub size: u64,
}
