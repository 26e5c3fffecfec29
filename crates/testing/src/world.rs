//! Time and chance that a test drives.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use stead_domain::{Clock, Context, Randomness, Timestamp};

/// Starts in May 2026 and moves one microsecond with every look, so that no two things happen at the same time.
pub struct TestClock(AtomicI64);

impl TestClock {
    pub fn advance(&self, duration: Duration) {
        self.0.fetch_add(i64::try_from(duration.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microseconds(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// The same bytes for the same seed (SplitMix64).
pub struct TestRandomness(AtomicU64);

impl Randomness for TestRandomness {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}

pub fn context(seed: u64) -> (Context, Arc<TestClock>) {
    let clock = Arc::new(TestClock(AtomicI64::new(1_777_888_000_000_000)));
    (Context::new(Arc::clone(&clock) as Arc<dyn Clock>, Arc::new(TestRandomness(AtomicU64::new(seed)))), clock)
}
