//! The output of one process on disk: frames in segments, from the first byte to the exit.
//!
//! The first segment is `<process>.log`; further ones are `<process>.more/<offset>.log`, named by where they begin. Offsets count the bytes
//! of both streams together, as they arrived. Past the cap the middle segments go, and their files become later ones; what is missing
//! between two segments is a gap.

mod frame;
mod opening;
mod reader;
#[cfg(test)]
mod recycling_tests;
mod segments;
mod sizes;
mod spare;
mod unfinished;
mod writer;

pub use frame::Kind;
pub use reader::{Found, LastWords, Mark, Piece, last_words, read};
pub use segments::{remove, trace};
pub use sizes::sizes;
pub use spare::spare;
pub use unfinished::unfinished;
pub use writer::{Caps, LogWriter};
