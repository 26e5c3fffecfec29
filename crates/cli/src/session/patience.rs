//! Asking a server that may be restarting.

use std::time::Duration;

use stead_client::ClientError;
use tokio::time::Instant;

/// How long a server may be gone, as for an upgrade.
const COMING_BACK: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// Asks again while nobody answers. Only for what may be asked twice.
pub async fn patiently<T>(ask: impl AsyncFn() -> stead_client::Result<T>) -> stead_client::Result<T> {
    let attempts = Attempts::new();
    loop {
        match ask().await {
            Err(error) if is_absence(&error) && attempts.once_more().await => {}
            outcome => return outcome,
        }
    }
}

/// How often something is tried while nobody answers: for as long as a server may be gone.
#[derive(Debug)]
pub struct Attempts {
    until: Instant,
}

impl Attempts {
    pub fn new() -> Self {
        Self { until: Instant::now() + COMING_BACK }
    }

    /// Waits a moment; false when that was long enough.
    pub async fn once_more(&self) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
        true
    }
}

/// Nobody answered, or no longer: what was asked may be asked again if it does no harm twice.
pub fn is_absence(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Lost { .. } => true,
        ClientError::Reply { status, .. } => *status == 503,
        _ => false,
    }
}
