//! Leases and tickets as they are shown, and what whoever finds one held is told.

use std::collections::HashMap;

use stead_domain::environment::Environment;
use stead_domain::ids::{LeaseId, PrincipalId, SandboxId};
use stead_domain::lease::{
    Deadline, HolderView, LINGER, Lease, LeaseBind, LeaseMode, LeaseRecord, LeaseStage, LeaseStatus, LeaseView, Moment, PreviousLease,
    Stage, TicketRecord, TicketView,
};
use stead_domain::{Code, Context, Error, Result};
use stead_store::{Unit, desks, leases, principals, sandboxes, tickets};

use super::deciding::Decided;
use crate::App;

/// So many of those who wait before somebody are named.
const NAMED: u64 = 3;
/// So many of those who wait are shown with the lease that they wait for.
const SHOWN: u64 = 10;
/// How soon somebody who does not wait with a long poll should ask again.
const POLL_AFTER: u64 = 1000;

/// For whoever holds it and did not say so.
const YOURS: &str = "; if it is yours, present its token: STEAD_LEASE, --lease-token-file, or the header `Stead-Lease`";

/// Names of principals, each read once.
#[derive(Default)]
pub(super) struct Names(HashMap<PrincipalId, String>);

impl Names {
    pub async fn of(&mut self, unit: &mut Unit, principal: PrincipalId) -> Result<String> {
        if let Some(name) = self.0.get(&principal) {
            return Ok(name.clone());
        }
        let name = principals::find(unit, principal).await?.map_or_else(|| principal.to_string(), |found| found.name);
        self.0.insert(principal, name.clone());
        Ok(name)
    }
}

/// When its holder should renew one that lasts so much longer.
pub(super) fn renew_after(left: u64, ttl: u64) -> u64 {
    left.min(ttl) / 3
}

fn left(deadline: Option<Deadline>, now: Moment) -> Option<u64> {
    deadline.and_then(|deadline| deadline.left(now))
}

/// How much longer one lasts that has not ended; none while something runs under one that a call took for itself. Nobody writes down that
/// nothing runs under it any more before somebody asks for it, so that is looked for here.
async fn remaining(unit: &mut Unit, record: &LeaseRecord, now: Moment) -> Result<Option<u64>> {
    let (lease, sandbox) = (&record.lease, record.of.sandbox_id);
    if lease.implicit && lease.stage == Stage::Active && lease.expires.is_none() {
        let host = sandboxes::find(unit, sandbox).await?.and_then(|sandbox| sandbox.host_id);
        return Ok((!desks::is_running(unit, sandbox, host).await?).then_some(LINGER));
    }
    Ok(left(lease.expires, now))
}

/// What is shown of a lease. `now` is the store's clock.
pub(super) async fn view(unit: &mut Unit, context: &Context, names: &mut Names, record: &LeaseRecord, now: Moment) -> Result<LeaseView> {
    let LeaseRecord { lease, of, acquired_at, end, .. } = record;
    let expires_in_ms = if end.is_some() { None } else { remaining(unit, record, now).await? };
    let stage = LeaseStage::from(lease.stage);
    Ok(LeaseView {
        id: lease.id,
        environment_id: of.environment_id,
        sandbox_id: of.sandbox_id,
        status: end.as_ref().map_or(LeaseStatus::Active, |end| end.how.into()),
        stage: end.is_none().then_some(stage),
        mode: lease.mode,
        bind: lease.bind,
        implicit: lease.implicit,
        fence: lease.fence,
        principal_id: lease.principal,
        holder: names.of(unit, lease.principal).await?,
        holder_type: of.terms.holder_type,
        holder_id: of.terms.holder_id.clone(),
        purpose: of.terms.purpose,
        note: of.terms.note.clone(),
        at_release: of.terms.at_release(),
        acquired_at: *acquired_at,
        expires_at: expires_in_ms.map(|left| context.now().plus(std::time::Duration::from_millis(left))),
        expires_in_ms,
        renew_after_ms: expires_in_ms.filter(|_| !lease.implicit).map(|left| renew_after(left, lease.ttl)),
        max_expires_in_ms: if end.is_some() { None } else { left(lease.ends, now) },
        released_at: end.as_ref().map(|end| end.at),
        clean: end.as_ref().map(|end| end.clean),
        reason: end.as_ref().and_then(|end| end.reason.clone()),
        token: None,
        previous: None,
        waiting: Vec::new(),
    })
}

/// Who held it before, and how that ended.
pub(super) async fn previous(unit: &mut Unit, names: &mut Names, record: &LeaseRecord) -> Result<Option<PreviousLease>> {
    let Some(before) = leases::previous(unit, record).await? else { return Ok(None) };
    let Some(end) = before.end else { return Ok(None) };
    Ok(Some(PreviousLease {
        id: before.lease.id,
        holder: names.of(unit, before.lease.principal).await?,
        note: before.of.terms.note,
        ended: end.how,
        clean: end.clean,
        ended_at: end.at,
    }))
}

pub(super) async fn ticket_view(unit: &mut Unit, record: &TicketRecord) -> Result<TicketView> {
    let sandbox = record.of.sandbox_id;
    let now = unit.moment().await?;
    let mut names = Names::default();
    let mut held_by = None;
    for live in leases::live(unit, sandbox).await? {
        if live.lease.mode == LeaseMode::Exclusive || held_by.is_none() {
            let holder = names.of(unit, live.lease.principal).await?;
            held_by = Some(holder_view(&live, holder, remaining(unit, &live, now).await?));
        }
    }
    let granted = leases::find(unit, record.ticket.lease).await?.filter(|lease| lease.end.is_none());
    let stage = granted.map(|lease| lease.lease.stage.into());
    let mut ahead = Vec::new();
    for waiting in tickets::head(unit, sandbox, NAMED).await? {
        if waiting.ticket.id == record.ticket.id {
            break;
        }
        ahead.push(waiter(unit, &mut names, waiting).await?);
    }
    Ok(TicketView {
        id: record.ticket.id,
        environment_id: record.of.environment_id,
        lease_id: record.ticket.lease,
        status: record.status,
        stage,
        position: tickets::before(unit, sandbox, &record.ticket).await?,
        held_by,
        ahead,
        deadline_in_ms: record.ticket.deadline.left(now).unwrap_or(record.ticket.wait),
        poll_after_ms: POLL_AFTER,
    })
}

async fn waiter(unit: &mut Unit, names: &mut Names, waiting: TicketRecord) -> Result<HolderView> {
    let holder = names.of(unit, waiting.ticket.wanted.principal).await?;
    Ok(HolderView { lease_id: None, holder, note: waiting.of.terms.note, expires_in_ms: None, implicit: false })
}

/// The first of those who wait for a sandbox.
pub(super) async fn queue(unit: &mut Unit, names: &mut Names, sandbox: SandboxId) -> Result<Vec<HolderView>> {
    let mut queue = Vec::new();
    for waiting in tickets::head(unit, sandbox, SHOWN).await? {
        queue.push(waiter(unit, names, waiting).await?);
    }
    Ok(queue)
}

fn holder_view(record: &LeaseRecord, holder: String, expires_in_ms: Option<u64>) -> HolderView {
    let LeaseRecord { lease, of, .. } = record;
    HolderView { lease_id: Some(lease.id), holder, note: of.terms.note.clone(), expires_in_ms, implicit: lease.implicit }
}

/// Adds to environments who holds each of them.
pub(crate) async fn add_holders(unit: &mut Unit, context: &Context, environments: &mut [Environment]) -> Result<()> {
    let (mut names, now) = (Names::default(), unit.moment().await?);
    for environment in environments {
        if !environment.status.is_live() {
            continue;
        }
        let live = leases::live(unit, environment.sandbox_id).await?;
        let Some(record) = live.iter().find(|record| record.lease.mode == LeaseMode::Exclusive).or(live.first()) else { continue };
        let holder = names.of(unit, record.lease.principal).await?;
        let left = remaining(unit, record, now).await?;
        hold(environment, record, holder, left, context);
    }
    Ok(())
}

/// Says of an environment who holds it.
pub(super) fn hold(environment: &mut Environment, record: &LeaseRecord, holder: String, left: Option<u64>, context: &Context) {
    let held = holder_view(record, holder, left);
    let explicit = held.expires_in_ms.filter(|_| !held.implicit);
    environment.lease_expires_at = explicit.map(|left| context.now().plus(std::time::Duration::from_millis(left)));
    environment.held_by = Some(held);
}

/// How long, as people say it.
fn spoken(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1000);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, 0, _) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h{minutes}m"),
    }
}

impl App {
    /// Somebody else holds it: who, what for, how much longer, and what can be done.
    pub(super) async fn held_error(&self, environment: &Environment, decided: &Decided, by: Option<LeaseId>) -> Error {
        let (sandbox, name, now) = (environment.sandbox_id, environment.name.clone(), decided.now);
        let told: Result<Error> = self.store.read(move |unit| Box::pin(async move { tell_who(unit, sandbox, &name, by, now).await })).await;
        told.unwrap_or_else(|error| error)
    }

    /// How a lease ended, in words; none when it has not.
    pub(super) async fn ended_how(&self, lease: LeaseId) -> Option<String> {
        let found: Result<Option<LeaseRecord>> =
            self.store.read(move |unit| Box::pin(async move { Ok(leases::find(unit, lease).await?) })).await;
        found.ok()??.end.map(|end| end.to_string())
    }
}

async fn tell_who(unit: &mut Unit, sandbox: SandboxId, name: &str, by: Option<LeaseId>, now: Moment) -> Result<Error> {
    let mut names = Names::default();
    let holder = match by {
        Some(by) => leases::find(unit, by).await?,
        None => None,
    };
    let waiting = tickets::count(unit, sandbox).await?;
    let has_token = holder.as_ref().is_some_and(|holder| holder.lease.bind == LeaseBind::Token && !holder.lease.implicit);
    let yours = if has_token { YOURS } else { "" };
    let error = match holder {
        Some(LeaseRecord { lease, of, .. }) => {
            let who = names.of(unit, lease.principal).await?;
            let time = match (lease_time(&lease, now), lease.implicit) {
                (Some(left), _) => format!(", for {} more unless it is renewed", spoken(left)),
                (None, true) => ", for as long as something runs".to_owned(),
                (None, false) => String::new(),
            };
            let note = of.terms.note.as_ref().map(|note| format!(" (\"{note}\")")).unwrap_or_default();
            let mut error = Error::new(Code::LeaseHeld, format!("environment `{name}` is held by {who}{note}{time}"))
                .detail("lease_id", lease.id.to_string())
                .detail("holder", who)
                .detail("fence", lease.fence)
                .detail("mode", lease.mode.as_str())
                .detail("implicit", lease.implicit);
            if let Some(left) = lease_time(&lease, now) {
                error = error.detail("expires_in_ms", left);
            }
            match of.terms.note {
                Some(note) => error.detail("note", note),
                None => error,
            }
        }
        None => Error::new(Code::LeaseHeld, format!("others wait for environment `{name}`, and come first")),
    };
    Ok(error.detail("waiting", waiting).recoverable(true).suggestion(format!(
        "wait for it with `stead lease run {name} --wait 5m -- COMMAND`, see who holds it with `stead lease list {name}`, or have an owner end \
         it with `stead lease break {name} --reason TEXT`{yours}"
    )))
}

fn lease_time(lease: &Lease, now: Moment) -> Option<u64> {
    left(lease.expires, now)
}
