//! Connections into places that wait for their next request. To make one costs a process inside; to keep one costs the place's network for
//! as long, so they are kept for a moment only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use hyper::client::conn::http1::SendRequest;
use stead_domain::port_origin::PortName;
use tokio::time::Instant;

/// Shorter than what servers usually keep a connection for, so that few are closed at the moment they are used.
const KEPT: Duration = Duration::from_secs(3);
/// For each port.
const MOST: usize = 16;
/// How long one that has just become free may take to say so.
const MOMENT: Duration = Duration::from_millis(100);

pub type Sender = SendRequest<Body>;

#[derive(Default)]
pub struct Pool {
    waiting: Mutex<HashMap<PortName, Vec<(Sender, Instant)>>>,
}

impl Pool {
    /// One that can be used, the latest first.
    pub async fn take(&self, name: PortName) -> Option<Sender> {
        loop {
            let (mut sender, since) = self.waiting().get_mut(&name)?.pop()?;
            let is_ready = since.elapsed() < KEPT && matches!(tokio::time::timeout(MOMENT, sender.ready()).await, Ok(Ok(())));
            if is_ready {
                return Some(sender);
            }
        }
    }

    pub fn give(&self, name: PortName, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut waiting = self.waiting();
        let kept = waiting.entry(name).or_default();
        if kept.len() < MOST {
            kept.push((sender, Instant::now()));
        }
    }

    pub fn close_unused(&self) {
        self.waiting().retain(|_, kept| {
            kept.retain(|(sender, since)| since.elapsed() < KEPT && !sender.is_closed());
            !kept.is_empty()
        });
    }

    pub fn close_all(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<PortName, Vec<(Sender, Instant)>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
