//! The steward's clocks: one that also runs while the machine sleeps, for how long things took, and the wall's, for when they were.

use rustix::time::{ClockId, clock_gettime};
use stead_domain::Timestamp;

/// Milliseconds since the machine was started.
pub fn milliseconds() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

pub fn now() -> Timestamp {
    let now = clock_gettime(ClockId::Realtime);
    Timestamp::from_microseconds(now.tv_sec * 1_000_000 + now.tv_nsec / 1000)
}
