//! Who holds something and for how long, as people read it.

use std::time::Duration;

use stead_domain::environment::Environment;
use stead_domain::lease::{HolderView, LeaseMode, LeaseStatus, LeaseView};

use crate::printer::human;

/// Up to the next second: what has just been asked for is told as it was asked for.
pub fn time(milliseconds: u64) -> String {
    human::duration(Duration::from_secs(milliseconds.div_ceil(1000)))
}

/// Whoever keeps others out of an environment now. A lease that a call took for itself and under which nothing runs any more keeps nobody out.
pub fn holder(environment: &Environment) -> Option<&HolderView> {
    environment.held_by.as_ref().filter(|held| !(held.implicit && held.expires_in_ms.is_some()))
}

/// How much longer.
pub fn left(held: &HolderView) -> String {
    match (held.implicit, held.expires_in_ms) {
        (true, _) => "while it runs".to_owned(),
        (false, Some(left)) => time(left),
        (false, None) => "changing hands".to_owned(),
    }
}

/// A name, and what it is for.
pub fn named(name: &str, note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{name} (\"{note}\")"),
        None => name.to_owned(),
    }
}

/// How far a lease is, and what is not usual about it.
pub fn status(lease: &LeaseView) -> String {
    let status = match (lease.status, lease.stage) {
        (LeaseStatus::Active, Some(stage)) => stage.to_string(),
        (status, _) => status.to_string(),
    };
    match (lease.mode, lease.implicit) {
        (LeaseMode::Shared, _) => format!("{status}, shared"),
        (_, true) => format!("{status}, implicit"),
        _ => status,
    }
}

/// How a lease ended, after it did.
pub fn ended(lease: &LeaseView) -> String {
    let when = lease.released_at.map(|at| format!(" at {}", human::moment(at))).unwrap_or_default();
    let reason = lease.reason.as_ref().map(|reason| format!(" (\"{reason}\")")).unwrap_or_default();
    format!("{}{when}{reason}", lease.status)
}
