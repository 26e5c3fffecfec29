//! Time and chance as arguments.

use std::sync::Arc;

use crate::time::Timestamp;

/// Tells the time. The server passes the machine's clock, a test passes its own.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// Fills bytes that nobody can guess. A test passes a seeded one.
pub trait Randomness: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

/// What a use case may know of the world besides its input and the store.
#[derive(Clone)]
pub struct Context {
    pub clock: Arc<dyn Clock>,
    pub randomness: Arc<dyn Randomness>,
}

impl Context {
    pub fn new(clock: Arc<dyn Clock>, randomness: Arc<dyn Randomness>) -> Self {
        Self { clock, randomness }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn random<const LENGTH: usize>(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        self.randomness.fill(&mut bytes);
        bytes
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Context")
    }
}
