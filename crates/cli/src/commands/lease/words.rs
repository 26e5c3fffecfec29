//! Who holds something and for how long, as people read it.

use std::time::Duration;

use stead_domain::definition::LeasePolicyKind;
use stead_domain::environment::Environment;
use stead_domain::lease::{HANDED_ON, HolderView, LeaseMode, LeaseStatus, LeaseView};

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
    remaining(held.implicit, held.expires_in_ms)
}

/// The same of a lease, which may have ended.
pub fn left_of(lease: &LeaseView) -> String {
    if lease.status == LeaseStatus::Active { remaining(lease.implicit, lease.expires_in_ms) } else { String::new() }
}

fn remaining(implicit: bool, expires_in_ms: Option<u64>) -> String {
    match (implicit, expires_in_ms) {
        (true, None) => "while it runs".to_owned(),
        // It lingers, and makes room for whoever asks.
        (true, Some(_)) => "idle".to_owned(),
        (false, Some(left)) => time(left),
        (false, None) => "changing hands".to_owned(),
    }
}

/// What somebody has who was just let in. Where everybody may change it nobody is kept out, and it is no more than a note of who works there.
pub fn granted(environment: &Environment, lease: &LeaseView) -> String {
    let (name, id) = (&environment.name, lease.id);
    let time = lease.expires_in_ms.map(time).unwrap_or_default();
    let is_open = environment.spec.lease.as_ref().and_then(|lease| lease.policy) == Some(LeasePolicyKind::Open);
    match lease.mode {
        LeaseMode::Shared if is_open => {
            format!("{name} is open to everybody: others may change it meanwhile, and {id} keeps nobody out; it lasts {time}")
        }
        LeaseMode::Shared => {
            format!("{name} is yours to read for {time}, shared with whoever else reads; nobody changes it meanwhile: {id}")
        }
        LeaseMode::Exclusive => format!("{name} is yours for {time}: {id}, fence {}", lease.fence),
    }
}

/// That the holder before did not let go, which is worth a look.
pub fn before(lease: &LeaseView) -> Option<String> {
    let before = lease.previous.as_ref().filter(|before| !before.clean)?;
    let who = named(&before.holder, before.note.as_deref());
    Some(format!("{who} held it before and did not let go ({}): look at what is there", before.ended))
}

/// Why a holder should finish up, as far as the lease itself tells.
pub fn why_finish(lease: Option<&LeaseView>) -> String {
    let mut why = Vec::new();
    if let Some(lease) = lease {
        if let Some(waits) = waiting(lease) {
            why.push(format!("{waits} for it"));
        }
        if let Some(most) = lease.max_expires_in_ms.filter(|most| lease.expires_in_ms.is_some_and(|left| *most <= left)) {
            why.push(format!("its max_lifetime ends it in {}, whatever is renewed", time(most)));
        }
    }
    if why.is_empty() {
        why.push("others wait, or no renewal helps for much longer".to_owned());
    }
    format!("finish up: {}", why.join(", and "))
}

/// Who waits for it, of those who are told; none when nobody does.
pub fn waiting(lease: &LeaseView) -> Option<String> {
    let names: Vec<String> = lease.waiting.iter().map(|waiter| named(&waiter.holder, waiter.note.as_deref())).collect();
    let verb = if names.len() == 1 { "waits" } else { "wait" };
    (!names.is_empty()).then(|| format!("{} {verb}", names.join(", ")))
}

/// Whom a lease was handed on to, if that is how it ended.
pub fn successor(lease: &LeaseView) -> Option<&str> {
    lease.reason.as_deref().filter(|_| lease.status == LeaseStatus::Released)?.strip_prefix(HANDED_ON)
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
