//! Who waits for a lease, in the order in which they are served.

use stead_domain::Timestamp;
use stead_domain::ids::{HostId, LeaseId, PrincipalId, ProcessId, ProjectId, SandboxId, TicketId};
use stead_domain::lease::{Deadline, Moment, PRIORITY, Ticket, TicketRecord, TicketStatus, Wanted, Whereabouts};

use crate::error::Result;
use crate::unit::Unit;
use crate::value::{Row, json};

/// What a decision looks at: so many, and one more to see whether there are more.
const USUAL: u64 = crate::desks::HEAD + 1;
const _: () = assert!(USUAL == 17, "the text of the query says so");

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, project_id, environment_id, sandbox_id, lease_id, principal_id, bind, mode, ttl, max_lifetime, priority, rank, wait, era,
             deadline, terms, status, created_at FROM tickets t WHERE ",
            $rest
        )
    };
}

fn read(row: &Row) -> Result<TicketRecord> {
    let mut row = row.reader();
    let id = row.parsed()?;
    let (project_id, environment_id, sandbox_id) = (row.parsed()?, row.parsed()?, row.parsed()?);
    let lease = row.parsed()?;
    let wanted = Wanted {
        principal: row.parsed()?,
        bind: row.parsed()?,
        mode: row.parsed()?,
        ttl: row.count()?,
        max_lifetime: row.optional_count()?,
    };
    let (priority, rank, wait) = (i8::try_from(row.integer()?).unwrap_or(0), row.integer()?, row.count()?);
    let deadline = Deadline { era: row.count()?, at: row.count()? };
    Ok(TicketRecord {
        ticket: Ticket { id, lease, wanted, priority, rank, wait, deadline },
        of: Whereabouts { project_id, environment_id, sandbox_id, terms: row.json()? },
        status: row.parsed()?,
        created_at: row.time()?,
    })
}

pub async fn insert(unit: &mut Unit, ticket: &Ticket, of: &Whereabouts, now: Timestamp) -> Result<()> {
    unit.execute(
        "INSERT INTO tickets (id, project_id, environment_id, sandbox_id, lease_id, principal_id, bind, mode, ttl, max_lifetime, priority, rank,
         wait, era, deadline, terms, status, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 'waiting', $17)",
        &[
            ticket.id.into(),
            of.project_id.into(),
            of.environment_id.into(),
            of.sandbox_id.into(),
            ticket.lease.into(),
            ticket.wanted.principal.into(),
            ticket.wanted.bind.into(),
            ticket.wanted.mode.into(),
            ticket.wanted.ttl.into(),
            ticket.wanted.max_lifetime.into(),
            i64::from(ticket.priority).into(),
            ticket.rank.into(),
            ticket.wait.into(),
            ticket.deadline.era.into(),
            ticket.deadline.at.into(),
            json(&of.terms),
            now.into(),
        ],
    )
    .await?;
    Ok(())
}

pub async fn find_in(unit: &mut Unit, project: ProjectId, id: TicketId) -> Result<Option<TicketRecord>> {
    unit.fetch_optional(select!("id = $1 AND project_id = $2"), &[id.into(), project.into()]).await?.as_ref().map(read).transpose()
}

pub async fn of_lease(unit: &mut Unit, lease: LeaseId) -> Result<Option<TicketRecord>> {
    unit.fetch_optional(select!("lease_id = $1"), &[lease.into()]).await?.as_ref().map(read).transpose()
}

/// The first of those that wait. How many is said in the text where it is said often: SQLite plans a query anew whenever its limit is bound.
pub async fn head(unit: &mut Unit, sandbox: SandboxId, count: u64) -> Result<Vec<TicketRecord>> {
    let rows = match count {
        USUAL => unit.fetch(select!("sandbox_id = $1 AND status = 'waiting' ORDER BY rank, id LIMIT 17"), &[sandbox.into()]).await?,
        _ => {
            let sql = select!("sandbox_id = $1 AND status = 'waiting' ORDER BY rank, id LIMIT $2");
            unit.fetch(sql, &[sandbox.into(), count.into()]).await?
        }
    };
    rows.iter().map(read).collect()
}

/// Some of those whose time is over, wherever in the queue they are.
pub async fn overdue(unit: &mut Unit, sandbox: SandboxId, now: Moment) -> Result<Vec<(TicketId, LeaseId)>> {
    let rows = unit
        .fetch(
            "SELECT id, lease_id FROM tickets WHERE sandbox_id = $1 AND status = 'waiting' AND deadline <= $2 AND era = $3 LIMIT 500",
            &[sandbox.into(), now.at.into(), now.era.into()],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let mut row = row.reader();
            Ok((row.parsed()?, row.parsed()?))
        })
        .collect()
}

/// When the first of them gives up.
pub async fn first_deadline(unit: &mut Unit, sandbox: SandboxId) -> Result<Option<u64>> {
    let row =
        unit.fetch_optional("SELECT MIN(deadline) FROM tickets WHERE sandbox_id = $1 AND status = 'waiting'", &[sandbox.into()]).await?;
    row.map_or(Ok(None), |row| row.reader().optional_count())
}

/// How many are served before this one; ten thousand for all that is more, which nobody waits for.
pub async fn before(unit: &mut Unit, sandbox: SandboxId, ticket: &Ticket) -> Result<u64> {
    let row = unit
        .fetch_optional(
            "SELECT COUNT(*) FROM (SELECT 1 FROM tickets WHERE sandbox_id = $1 AND status = 'waiting' AND (rank < $2 OR (rank = $2 AND id < $3))
             LIMIT 10000) ahead",
            &[sandbox.into(), ticket.rank.into(), ticket.id.into()],
        )
        .await?;
    row.map_or(Ok(0), |row| row.reader().count())
}

/// How many wait; ten thousand for all that is more.
pub async fn count(unit: &mut Unit, sandbox: SandboxId) -> Result<u64> {
    let row = unit
        .fetch_optional(
            "SELECT COUNT(*) FROM (SELECT 1 FROM tickets WHERE sandbox_id = $1 AND status = 'waiting' LIMIT 10000) waiting",
            &[sandbox.into()],
        )
        .await?;
    row.map_or(Ok(0), |row| row.reader().count())
}

/// Somebody may not hold anything in a project any more: it waits for nothing there either.
pub async fn withdraw_of(unit: &mut Unit, project: ProjectId, principal: PrincipalId, now: Timestamp) -> Result<()> {
    unit.execute(
        "UPDATE tickets SET status = 'withdrawn', ended_at = $3 WHERE project_id = $1 AND principal_id = $2 AND status = 'waiting'",
        &[project.into(), principal.into(), now.into()],
    )
    .await?;
    Ok(())
}

/// The sandbox of a process, if somebody waits for it.
pub async fn waited_for(unit: &mut Unit, process: ProcessId) -> Result<Option<SandboxId>> {
    let row = unit
        .fetch_optional(
            "SELECT p.sandbox_id FROM processes p WHERE p.id = $1
             AND EXISTS (SELECT 1 FROM tickets t WHERE t.sandbox_id = p.sandbox_id AND t.status = 'waiting')",
            &[process.into()],
        )
        .await?;
    row.map(|row| row.reader().parsed()).transpose()
}

/// Those for whose sandbox somebody waits.
pub async fn all_waited_for(unit: &mut Unit, host: HostId) -> Result<Vec<SandboxId>> {
    let rows = unit
        .fetch(
            "SELECT DISTINCT t.sandbox_id FROM tickets t JOIN sandboxes s ON s.id = t.sandbox_id
             WHERE t.status = 'waiting' AND (s.host_id = $1 OR s.host_id IS NULL) LIMIT 2000",
            &[host.into()],
        )
        .await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// Once: a ticket that waits no more stays as it is.
pub async fn end(unit: &mut Unit, id: TicketId, status: TicketStatus, now: Timestamp) -> Result<bool> {
    let changed = unit
        .execute(
            "UPDATE tickets SET status = $2, ended_at = $3 WHERE id = $1 AND status = 'waiting'",
            &[id.into(), status.into(), now.into()],
        )
        .await?;
    Ok(changed == 1)
}

/// The clock began anew. All who wait get their whole time again and stay in their order; a clock that went back takes them along, so that
/// nobody who comes from now on has waited for longer.
pub(crate) async fn enter_era(unit: &mut Unit, sandbox: SandboxId, now: Moment) -> Result<()> {
    unit.execute(
        "UPDATE tickets SET era = $2, deadline = CASE WHEN era <> $2 OR deadline > $3 + wait THEN $3 + wait ELSE deadline END,
         rank = rank - (SELECT CASE WHEN MAX(other.rank + other.priority * $4) > $3 THEN MAX(other.rank + other.priority * $4) - $3 ELSE 0 END
         FROM tickets other WHERE other.sandbox_id = $1 AND other.status = 'waiting' AND (other.era <> $2 OR other.deadline > $3 + other.wait))
         WHERE sandbox_id = $1 AND status = 'waiting'",
        &[sandbox.into(), now.era.into(), now.at.into(), PRIORITY.into()],
    )
    .await?;
    Ok(())
}

/// Forgets some of those that ended before a time.
pub async fn delete_ended(unit: &mut Unit, before: Timestamp) -> Result<u64> {
    unit.execute(
        "DELETE FROM tickets WHERE id IN (SELECT id FROM tickets WHERE ended_at IS NOT NULL AND ended_at < $1 LIMIT 1000)",
        &[before.into()],
    )
    .await
}
