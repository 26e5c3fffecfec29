//! Takes known secret values out of bytes on their way to a log, a reply or a record: as they are, and in the encodings that programs
//! print them in. A stream may be cut anywhere; what comes out is the same.
//!
//! This is hygiene and no boundary: whoever holds a value can always write it in a way that nobody knows. The crate's README says what is
//! looked for and what is not.
//!
//! ```
//! use stead_redaction::{Known, Redactor, Value};
//!
//! let known = Known::new([Value { replacement: "[secret:TOKEN]", bytes: b"correct-horse" }]);
//! let (mut redactor, mut out) = (Redactor::new(known), Vec::new());
//! redactor.push(b"using correct-", &mut out);
//! redactor.push(b"horse\n", &mut out);
//! redactor.finish(&mut out);
//! assert_eq!(out, b"using [secret:TOKEN]\n");
//! ```

mod detector;
mod forms;
mod known;
mod parts;
mod regions;
mod start;
mod stream;
#[cfg(test)]
mod tests;
mod trie;
mod view;

pub use detector::Detector;
pub use known::{Known, SHORTEST, Value};
pub use stream::Redactor;
