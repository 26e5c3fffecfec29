//! Desks: what the rules of leases know of a sandbox. Whoever decides has the sandbox's row locked; the clock is read after that.

use stead_domain::ids::{HostId, ProjectId, SandboxId};
use stead_domain::lease::{Deadline, Desk, LeaseRecord, Moment, Rules, TicketRecord};
use stead_domain::provider::ProviderName;

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, Value};
use crate::{leases, tickets};

/// So many of those who wait are looked at for one decision, at first.
pub const HEAD: u64 = 16;

/// A desk with what is kept beside it.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub sandbox: SandboxId,
    pub project: ProjectId,
    pub provider: ProviderName,
    pub host: Option<HostId>,
    pub desk: Desk,
    pub leases: Vec<LeaseRecord>,
    pub waiting: Vec<TicketRecord>,
    pub now: Moment,
    /// Why nobody is let in until somebody has looked at it.
    pub quarantined: Option<String>,
    pub cleaning_failures: u64,
    /// When somebody has to look, as it is written down.
    due: Option<Deadline>,
    confirmed_in: Option<i64>,
}

const FIND: &str =
    "SELECT project_id, provider, host_id, fence, dirty, not_before_era, not_before, confirmed_in, due_era, due, quarantined,
    cleaning_failures FROM sandboxes t WHERE id = $1 AND destroyed_at IS NULL";

/// Locks it and reads the clock then. `own` is this server's host, and since when this server is there; `head` is how many of
/// those who wait are told of.
pub async fn lock(unit: &mut Unit, sandbox: SandboxId, rules: Rules, own: (HostId, i64), head: u64) -> Result<Option<Loaded>> {
    let Some(row) = unit.fetch_locked(FIND, &[sandbox.into()]).await? else { return Ok(None) };
    let loaded = load(unit, sandbox, &row, rules, own, head).await?;
    if !loaded.desk.waiting.iter().any(|ticket| ticket.deadline.is_foreign(loaded.now, ticket.wait)) {
        return Ok(Some(loaded));
    }
    // Deadlines of a clock that is gone: those who wait begin anew.
    tickets::enter_era(unit, sandbox, loaded.now).await?;
    load(unit, sandbox, &row, rules, own, head).await.map(Some)
}

/// Keeps every decision about a sandbox waiting until the unit ends. Whoever writes to its leases or tickets before it decides takes this first,
/// so that two never wait for each other.
pub async fn claim(unit: &mut Unit, sandbox: SandboxId) -> Result<()> {
    unit.fetch_locked("SELECT id FROM sandboxes t WHERE id = $1", &[sandbox.into()]).await?;
    Ok(())
}

/// Only looks: what is decided on it may not be true any more.
pub async fn look(unit: &mut Unit, sandbox: SandboxId, rules: Rules, own: (HostId, i64)) -> Result<Option<Loaded>> {
    let Some(row) = unit.fetch_optional(FIND, &[sandbox.into()]).await? else { return Ok(None) };
    load(unit, sandbox, &row, rules, own, HEAD).await.map(Some)
}

async fn load(unit: &mut Unit, sandbox: SandboxId, row: &Row, rules: Rules, own: (HostId, i64), head: u64) -> Result<Loaded> {
    let now = unit.moment().await?;
    let mut row = row.reader();
    let (project, provider, host): (_, _, Option<HostId>) = (row.parsed()?, row.parsed()?, row.optional_parsed()?);
    let (fence, dirty) = (row.count()?, row.optional_count()?);
    let mut deadline =
        || Ok::<_, crate::StoreError>(row.optional_count()?.zip(row.optional_count()?).map(|(era, at)| Deadline { era, at }));
    let not_before = deadline()?;
    let confirmed_in = row.optional_integer()?;
    let mut deadline =
        || Ok::<_, crate::StoreError>(row.optional_count()?.zip(row.optional_count()?).map(|(era, at)| Deadline { era, at }));
    let due = deadline()?;
    let (quarantined, cleaning_failures) = (row.optional_text()?, row.count()?);
    let live = leases::live(unit, sandbox).await?;
    let mut waiting = tickets::head(unit, sandbox, head + 1).await?;
    let more_wait = waiting.len() as u64 > head;
    waiting.truncate(head as usize);
    let unconfirmed = match host {
        None => false,
        Some(host) if host == own.0 => confirmed_in != Some(own.1),
        Some(host) => confirmed_in != life_of(unit, host).await?,
    };
    let desk = Desk {
        rules,
        fence,
        leases: live.iter().map(|record| record.lease).collect(),
        waiting: waiting.iter().map(|record| record.ticket).collect(),
        more_wait,
        dirty,
        unconfirmed,
        not_before,
    };
    Ok(Loaded { sandbox, project, provider, host, desk, leases: live, waiting, now, quarantined, cleaning_failures, due, confirmed_in })
}

/// Whether somebody holds it, and the place has not been told so by the server that is there now. Only of a sandbox of that server's host.
pub async fn is_unconfirmed(unit: &mut Unit, sandbox: SandboxId, own: (HostId, i64)) -> Result<bool> {
    let row = unit
        .fetch_optional(
            "SELECT 1 FROM sandboxes s WHERE s.id = $1 AND s.destroyed_at IS NULL AND s.host_id = $2 AND (s.confirmed_in IS NULL OR s.confirmed_in <> $3)
             AND EXISTS (SELECT 1 FROM leases t WHERE t.sandbox_id = s.id AND t.ended_at IS NULL)",
            &[sandbox.into(), own.0.into(), own.1.into()],
        )
        .await?;
    Ok(row.is_some())
}

async fn life_of(unit: &mut Unit, host: HostId) -> Result<Option<i64>> {
    let row = unit.fetch_optional("SELECT started_at FROM hosts WHERE id = $1", &[host.into()]).await?;
    row.map_or(Ok(None), |row| row.reader().optional_integer())
}

/// Whether a process of the sandbox is not over, as far as records say.
pub async fn is_running(unit: &mut Unit, sandbox: SandboxId, host: Option<HostId>) -> Result<bool> {
    let sql = Sql::new("SELECT 1 FROM processes WHERE ended_at IS NULL").bind(" AND sandbox_id = ?", sandbox);
    let sql = match host {
        Some(host) => sql.bind(" AND host_id = ?", host),
        None => sql.push(" AND host_id IS NULL"),
    };
    Ok(!unit.fetch_built(&sql.push(" LIMIT 1")).await?.is_empty())
}

/// Writes what has changed of the desk itself and of leases that go on. Those that began and ended are written by whoever knows why.
pub async fn save(unit: &mut Unit, loaded: &Loaded, after: &Desk, own: (HostId, i64)) -> Result<()> {
    let before = &loaded.desk;
    for lease in &after.leases {
        if before.find(lease.id).is_some_and(|known| known != lease) {
            leases::save(unit, lease).await?;
        }
    }
    let due = due(unit, loaded, after).await?;
    // Whoever was asked has confirmed it to its own host's server.
    let confirmed_in =
        if before.unconfirmed && !after.unconfirmed && loaded.host == Some(own.0) { Some(own.1) } else { loaded.confirmed_in };
    if (before.fence, before.dirty, before.not_before, loaded.due, loaded.confirmed_in)
        != (after.fence, after.dirty, after.not_before, due, confirmed_in)
    {
        unit.execute(
            "UPDATE sandboxes SET fence = $2, dirty = $3, not_before_era = $4, not_before = $5, due_era = $6, due = $7, confirmed_in = $8 WHERE id = $1",
            &[
                loaded.sandbox.into(),
                after.fence.into(),
                after.dirty.into(),
                after.not_before.map(|moment| moment.era).into(),
                after.not_before.map(|moment| moment.at).into(),
                due.map(|moment| moment.era).into(),
                due.map(|moment| moment.at).into(),
                Value::Integer(confirmed_in),
            ],
        )
        .await?;
    }
    Ok(())
}

/// Those behind the head of the queue give up in their time, too.
async fn due(unit: &mut Unit, loaded: &Loaded, after: &Desk) -> Result<Option<Deadline>> {
    let mut due = after.due();
    if after.more_wait
        && let Some(at) = tickets::first_deadline(unit, loaded.sandbox).await?
    {
        let first = Deadline { era: loaded.now.era, at };
        due = Some(due.map_or(first, |due| due.earlier(first)));
    }
    Ok(due)
}

/// Sandboxes at which something is due, of this era or of another; the clock's reading, and the next moment when something is due after it.
pub async fn due_now(unit: &mut Unit, host: HostId) -> Result<(Vec<SandboxId>, Moment, Option<u64>)> {
    let now = unit.moment().await?;
    let rows = unit
        .fetch(
            "SELECT id FROM sandboxes WHERE due IS NOT NULL AND destroyed_at IS NULL AND (due <= $1 OR due_era <> $2)
             AND (host_id = $3 OR host_id IS NULL) ORDER BY due LIMIT 500",
            &[now.at.into(), now.era.into(), host.into()],
        )
        .await?;
    let due: Vec<SandboxId> = rows.iter().map(|row| row.reader().parsed()).collect::<Result<_>>()?;
    let next = unit.fetch_optional("SELECT MIN(due) FROM sandboxes WHERE due > $1", &[now.at.into()]).await?;
    let next = next.map_or(Ok(None), |row| row.reader().optional_count())?;
    Ok((due, now, next))
}

/// Sandboxes of a host for which a barrier is wanted, or something has to be cleaned up.
pub async fn unsettled(unit: &mut Unit, (host, life): (HostId, i64)) -> Result<Vec<SandboxId>> {
    let rows = unit
        .fetch(
            "SELECT id FROM sandboxes WHERE host_id = $1 AND destroyed_at IS NULL AND dirty IS NOT NULL AND quarantined IS NULL
             UNION SELECT t.sandbox_id FROM leases t JOIN sandboxes s ON s.id = t.sandbox_id
             WHERE t.ended_at IS NULL AND t.stage <> 'active' AND s.host_id = $1 AND s.quarantined IS NULL
             UNION SELECT t.sandbox_id FROM leases t JOIN sandboxes s ON s.id = t.sandbox_id
             WHERE t.ended_at IS NULL AND s.host_id = $1 AND (s.confirmed_in IS NULL OR s.confirmed_in <> $2) AND s.quarantined IS NULL
             UNION SELECT t.sandbox_id FROM leases t JOIN sandboxes s ON s.id = t.sandbox_id
             WHERE t.work IS NOT NULL AND s.host_id = $1 AND s.destroyed_at IS NULL AND s.quarantined IS NULL",
            &[host.into(), life.into()],
        )
        .await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// Nobody uses it any more: there is nothing to look at.
pub async fn forget_due(unit: &mut Unit, sandbox: SandboxId) -> Result<()> {
    unit.execute("UPDATE sandboxes SET due = NULL, due_era = NULL WHERE id = $1", &[sandbox.into()]).await?;
    Ok(())
}

/// How often in a row what a holder left could not be cleaned up.
pub async fn cleaning_failures(unit: &mut Unit, sandbox: SandboxId) -> Result<Option<u64>> {
    let row = unit.fetch_locked("SELECT cleaning_failures FROM sandboxes t WHERE id = $1", &[sandbox.into()]).await?;
    row.map(|row| row.reader().count()).transpose()
}

pub async fn note_cleaning(unit: &mut Unit, sandbox: SandboxId, failures: u64, quarantined: Option<&str>) -> Result<()> {
    unit.execute(
        "UPDATE sandboxes SET cleaning_failures = $2, quarantined = $3 WHERE id = $1",
        &[sandbox.into(), failures.into(), quarantined.into()],
    )
    .await?;
    Ok(())
}
