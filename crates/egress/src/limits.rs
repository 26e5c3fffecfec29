//! How long and how much.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Limits {
    /// For the first bytes of a connection, or a proxy request, to be whole.
    pub beginning: Duration,
    /// How long a port where servers may speak first waits for the program's bytes before it connects.
    pub patience: Duration,
    pub resolve: Duration,
    pub connect: Duration,
    /// At once, for one environment.
    pub connections: usize,
    /// At once, for all of them; lowered to what the process may open.
    pub all_connections: usize,
    /// Lookups under way for one environment: each takes a thread.
    pub lookups: usize,
    /// UDP conversations of one environment that are kept open.
    pub conversations: usize,
    pub conversation_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            beginning: Duration::from_secs(10),
            patience: Duration::from_millis(300),
            resolve: Duration::from_secs(10),
            connect: Duration::from_secs(15),
            connections: 1024,
            all_connections: 65_536,
            lookups: 16,
            conversations: 256,
            conversation_idle: Duration::from_secs(60),
        }
    }
}
