//! Asking a server that may be restarting.

use std::time::Duration;

use stead_client::ClientError;
use tokio::time::Instant;

/// How long a server may be gone, as for an upgrade.
const COMING_BACK: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// Asks again while nobody answers. Only for what may be asked twice.
pub async fn patiently<T>(ask: impl AsyncFn() -> stead_client::Result<T>) -> stead_client::Result<T> {
    let begun = Instant::now();
    loop {
        match ask().await {
            Err(error) if is_absence(&error) && begun.elapsed() < COMING_BACK => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}

fn is_absence(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Lost { .. } => true,
        ClientError::Reply { status, .. } => *status == 503,
        _ => false,
    }
}
