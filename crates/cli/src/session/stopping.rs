//! A program that has to end because whoever runs it may no longer: it is asked, then it is killed, and then nobody waits for it.

use std::future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long it is given to end by itself, and then to be gone.
const GRACE: Duration = Duration::from_secs(5);

pub enum Step {
    Ask,
    Kill,
    /// Whoever keeps the program cannot be reached, or has not obeyed; the server stops it when it can.
    Leave,
}

pub struct Stopping {
    told: Option<watch::Receiver<bool>>,
    next: Option<(Step, Instant)>,
}

impl Stopping {
    pub fn new(told: Option<watch::Receiver<bool>>) -> Self {
        Self { told, next: None }
    }

    /// Waits for the next thing to do. May be given up and asked again.
    pub async fn next(&mut self) -> Step {
        if let Some((_, at)) = &self.next {
            sleep_until(*at).await;
            return match self.next.take() {
                Some((Step::Kill, at)) => {
                    self.next = Some((Step::Leave, at + GRACE));
                    Step::Kill
                }
                _ => Step::Leave,
            };
        }
        let told = match &mut self.told {
            Some(told) => told.wait_for(|stop| *stop).await.is_ok(),
            None => false,
        };
        if !told {
            future::pending::<()>().await;
        }
        self.next = Some((Step::Kill, Instant::now() + GRACE));
        Step::Ask
    }
}
