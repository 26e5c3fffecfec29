//! The machine's clock and randomness: the one place where time and chance come in.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use stead_domain::{Clock, Context, Randomness, Timestamp};

struct MachineClock;

impl Clock for MachineClock {
    // The rule against reading the clock is for everything that takes it as an argument; this is where the argument comes from.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Timestamp {
        let microseconds = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |length| -length),
        };
        Timestamp::from_microseconds(microseconds)
    }
}

struct MachineRandomness;

impl Randomness for MachineRandomness {
    fn fill(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
                Ok(length) => filled += length,
                Err(Errno::INTR | Errno::AGAIN) => {}
                // A kernel without randomness: ids and keys that can be guessed are worse than none.
                Err(_) => std::process::abort(),
            }
        }
    }
}

pub fn context() -> Context {
    Context::new(Arc::new(MachineClock), Arc::new(MachineRandomness))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ_and_time_is_later_than_this_line() {
        let context = context();
        assert_ne!(context.random::<32>(), context.random::<32>());
        assert!(context.now() > "2025-01-01T00:00:00Z".parse().unwrap());
    }
}
