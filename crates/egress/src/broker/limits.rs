//! How much one connection may take.

use std::time::Duration;

/// Heads are as long as elsewhere in the relay, and no longer.
pub const HEAD: usize = crate::sniff::http::LONGEST_HEAD;
pub const FIELDS: usize = 200;
/// For a head and what comes with it.
pub const BUFFER: usize = HEAD + 16 * 1024;
pub const STREAMS: u32 = 128;
pub const STREAM_WINDOW: u32 = 256 * 1024;
pub const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Replies up to this length are told with their length, if they come at once.
pub const SMALL: u64 = 64 * 1024;
pub const AT_ONCE: Duration = Duration::from_millis(250);
/// How often the time for a beginning a connection may be without a request.
pub const IDLE: u32 = 8;
