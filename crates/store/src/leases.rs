//! Leases, those that have ended among them.

use stead_domain::Timestamp;
use stead_domain::ids::{EnvironmentId, HostId, LeaseId, PrincipalId, ProjectId, SandboxId};
use stead_domain::lease::{Deadline, EndRecord, Lease, LeaseRecord, LeaseStage, Stage, Whereabouts};
use stead_domain::page::PageRequest;

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, Value, json};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, project_id, environment_id, sandbox_id, principal_id, bind, mode, implicit, stage, fence, ttl, max_lifetime, era, expires,
             ends, terms, token_hash, acquired_at, ended_at, how, clean, reason, work FROM leases t WHERE ",
            $rest
        )
    };
}

fn read(row: &Row) -> Result<LeaseRecord> {
    let mut row = row.reader();
    let id = row.parsed()?;
    let (project_id, environment_id, sandbox_id) = (row.parsed()?, row.parsed()?, row.parsed()?);
    let (principal, bind, mode, implicit) = (row.parsed()?, row.parsed()?, row.parsed()?, row.flag()?);
    let stage = match row.parsed::<LeaseStage>()? {
        LeaseStage::Fencing => Stage::Fencing,
        LeaseStage::Active => Stage::Active,
        LeaseStage::Stopping => Stage::Stopping,
    };
    let (fence, ttl, max_lifetime) = (row.count()?, row.count()?, row.optional_count()?);
    let era = row.optional_count()?;
    let deadline = |at: Option<u64>| era.zip(at).map(|(era, at)| Deadline { era, at });
    let (expires, ends) = (deadline(row.optional_count()?), deadline(row.optional_count()?));
    let terms = row.json()?;
    let (token_hash, acquired_at) = (row.optional_text()?, row.time()?);
    let (at, how, clean, reason) = (row.optional_time()?, row.optional_parsed()?, row.optional_integer()?, row.optional_text()?);
    let end = at.zip(how).map(|(at, how)| EndRecord { at, how, clean: clean == Some(1), reason });
    Ok(LeaseRecord {
        lease: Lease { id, principal, bind, mode, implicit, stage, fence, ttl, max_lifetime, expires, ends },
        of: Whereabouts { project_id, environment_id, sandbox_id, terms },
        token_hash,
        acquired_at,
        end,
        has_work: row.optional_text()?.is_some(),
    })
}

/// Both deadlines are of one era: they are set together.
fn era(lease: &Lease) -> Option<u64> {
    lease.expires.or(lease.ends).map(|deadline| deadline.era)
}

fn at(deadline: Option<Deadline>) -> Value {
    deadline.map(|deadline| deadline.at).into()
}

pub async fn insert(unit: &mut Unit, lease: &Lease, of: &Whereabouts, token_hash: Option<&str>, now: Timestamp) -> Result<()> {
    unit.execute(
        "INSERT INTO leases (id, project_id, environment_id, sandbox_id, principal_id, bind, mode, implicit, stage, fence, ttl, max_lifetime, era,
         expires, ends, terms, token_hash, acquired_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        &[
            lease.id.into(),
            of.project_id.into(),
            of.environment_id.into(),
            of.sandbox_id.into(),
            lease.principal.into(),
            lease.bind.into(),
            lease.mode.into(),
            lease.implicit.into(),
            LeaseStage::from(lease.stage).into(),
            lease.fence.into(),
            lease.ttl.into(),
            lease.max_lifetime.into(),
            era(lease).into(),
            at(lease.expires),
            at(lease.ends),
            json(&of.terms),
            token_hash.into(),
            now.into(),
        ],
    )
    .await?;
    Ok(())
}

/// Writes what the rules may change.
pub async fn save(unit: &mut Unit, lease: &Lease) -> Result<()> {
    unit.execute(
        "UPDATE leases SET stage = $2, fence = $3, era = $4, expires = $5, ends = $6, mode = $7 WHERE id = $1 AND ended_at IS NULL",
        &[
            lease.id.into(),
            LeaseStage::from(lease.stage).into(),
            lease.fence.into(),
            era(lease).into(),
            at(lease.expires),
            at(lease.ends),
            lease.mode.into(),
        ],
    )
    .await?;
    Ok(())
}

/// Its time begins: whoever holds it has it since now, and not since it was granted.
pub async fn begin_time(unit: &mut Unit, id: LeaseId, now: Timestamp) -> Result<()> {
    unit.execute("UPDATE leases SET acquired_at = $2 WHERE id = $1", &[id.into(), now.into()]).await?;
    Ok(())
}

/// Once: one that has ended stays as it ended.
pub async fn end(unit: &mut Unit, id: LeaseId, end: &EndRecord, has_work: bool) -> Result<bool> {
    let work = has_work.then_some("pending");
    let changed = unit
        .execute(
            "UPDATE leases SET ended_at = $2, how = $3, clean = $4, reason = $5, work = $6, expires = NULL, ends = NULL, era = NULL
             WHERE id = $1 AND ended_at IS NULL",
            &[id.into(), end.at.into(), end.how.into(), end.clean.into(), end.reason.as_deref().into(), work.into()],
        )
        .await?;
    Ok(changed == 1)
}

/// Says what is to be done with what it leaves, instead of what was said when it was acquired.
pub async fn set_terms(unit: &mut Unit, id: LeaseId, terms: &stead_domain::lease::Terms) -> Result<()> {
    unit.execute("UPDATE leases SET terms = $2 WHERE id = $1 AND ended_at IS NULL", &[id.into(), json(terms)]).await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, id: LeaseId) -> Result<Option<LeaseRecord>> {
    unit.fetch_optional(select!("id = $1"), &[id.into()]).await?.as_ref().map(read).transpose()
}

pub async fn find_in(unit: &mut Unit, project: ProjectId, id: LeaseId) -> Result<Option<LeaseRecord>> {
    unit.fetch_optional(select!("id = $1 AND project_id = $2"), &[id.into(), project.into()]).await?.as_ref().map(read).transpose()
}

/// Those of a sandbox that have not ended.
pub async fn live(unit: &mut Unit, sandbox: SandboxId) -> Result<Vec<LeaseRecord>> {
    unit.fetch(select!("sandbox_id = $1 AND ended_at IS NULL ORDER BY id"), &[sandbox.into()]).await?.iter().map(read).collect()
}

/// Those that somebody holds in a project.
pub async fn live_of(unit: &mut Unit, project: ProjectId, principal: PrincipalId) -> Result<Vec<LeaseRecord>> {
    let rows = unit
        .fetch(select!("project_id = $1 AND principal_id = $2 AND ended_at IS NULL ORDER BY id"), &[project.into(), principal.into()])
        .await?;
    rows.iter().map(read).collect()
}

/// The latest of a sandbox before this one that has ended and could change something. One that ended before its time began held nothing.
pub async fn previous(unit: &mut Unit, to: &LeaseRecord) -> Result<Option<LeaseRecord>> {
    let row = unit
        .fetch_optional(
            select!(
                "project_id = $1 AND sandbox_id = $2 AND fence <= $3 AND id <> $4 AND mode = 'exclusive' AND ended_at IS NOT NULL
                 AND stage <> 'fencing' ORDER BY fence DESC LIMIT 1"
            ),
            &[to.of.project_id.into(), to.of.sandbox_id.into(), to.lease.fence.into(), to.lease.id.into()],
        )
        .await?;
    row.as_ref().map(read).transpose()
}

/// Those of a sandbox that left work, oldest first.
pub async fn with_work(unit: &mut Unit, sandbox: SandboxId) -> Result<Vec<LeaseRecord>> {
    unit.fetch(select!("sandbox_id = $1 AND work IS NOT NULL ORDER BY ended_at, id"), &[sandbox.into()]).await?.iter().map(read).collect()
}

pub async fn work_is_done(unit: &mut Unit, id: LeaseId) -> Result<()> {
    unit.execute("UPDATE leases SET work = NULL WHERE id = $1", &[id.into()]).await?;
    Ok(())
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LeaseFilter {
    pub environment: Option<EnvironmentId>,
    pub sandbox: Option<SandboxId>,
    /// Only those that have not ended.
    pub live: bool,
    /// Without those that calls took for themselves.
    pub explicit: bool,
}

/// Newest first.
pub async fn list(unit: &mut Unit, project: ProjectId, filter: &LeaseFilter, page: &PageRequest) -> Result<Vec<LeaseRecord>> {
    let mut sql = Sql::new(select!(""))
        .bind("project_id = ?", project)
        .bind_some(" AND environment_id = ?", filter.environment)
        .bind_some(" AND sandbox_id = ?", filter.sandbox)
        .bind_some(" AND id < ?", page.after.as_deref());
    if filter.live {
        sql = sql.push(" AND ended_at IS NULL");
    }
    if filter.explicit {
        sql = sql.push(" AND implicit = 0");
    }
    let sql = sql.bind(" ORDER BY id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// Sandboxes whose implicit lease counts as being in use while nothing runs under it any more, as far as records say.
pub async fn idle(unit: &mut Unit, host: HostId) -> Result<Vec<SandboxId>> {
    let rows = unit
        .fetch(
            "SELECT t.sandbox_id FROM leases t JOIN sandboxes s ON s.id = t.sandbox_id
             WHERE t.ended_at IS NULL AND t.implicit = 1 AND t.expires IS NULL
             AND s.host_id = $1 AND NOT EXISTS (SELECT 1 FROM processes p WHERE p.host_id = $1 AND p.sandbox_id = t.sandbox_id AND p.ended_at IS NULL)
             ORDER BY t.sandbox_id LIMIT 2000",
            &[host.into()],
        )
        .await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// The sandbox is gone: nobody holds it, and nobody waits for it any more.
pub async fn end_of_sandbox(unit: &mut Unit, sandbox: SandboxId, now: Timestamp) -> Result<()> {
    unit.execute(
        "UPDATE leases SET ended_at = $2, how = CASE stage WHEN 'stopping' THEN 'released' ELSE 'revoked' END, clean = 1,
         reason = CASE stage WHEN 'stopping' THEN NULL ELSE 'the environment was deleted' END, work = NULL, expires = NULL, ends = NULL,
         era = NULL WHERE sandbox_id = $1 AND ended_at IS NULL",
        &[sandbox.into(), now.into()],
    )
    .await?;
    unit.execute("UPDATE leases SET work = NULL WHERE sandbox_id = $1 AND work IS NOT NULL", &[sandbox.into()]).await?;
    unit.execute(
        "UPDATE tickets SET status = 'withdrawn', ended_at = $2 WHERE sandbox_id = $1 AND status = 'waiting'",
        &[sandbox.into(), now.into()],
    )
    .await?;
    Ok(())
}

/// After a restore nobody holds anything: what was given out since the backup is not known here, and what the backup says is not true any more.
pub(crate) async fn end_all(unit: &mut Unit) -> Result<()> {
    unit.execute(
        "UPDATE leases SET ended_at = acquired_at, how = 'revoked', clean = 0, reason = 'a backup was restored', expires = NULL, ends = NULL,
         era = NULL WHERE ended_at IS NULL",
        &[],
    )
    .await?;
    unit.execute("UPDATE tickets SET status = 'withdrawn', ended_at = created_at WHERE status = 'waiting'", &[]).await?;
    Ok(())
}

/// Forgets some of those that calls took for themselves, that ended before a time and left nothing to do.
pub async fn delete_implicit(unit: &mut Unit, before: Timestamp) -> Result<u64> {
    unit.execute(
        "DELETE FROM leases WHERE id IN (SELECT id FROM leases WHERE ended_at IS NOT NULL AND ended_at < $1 AND implicit = 1 AND work IS NULL LIMIT 1000)",
        &[before.into()],
    )
    .await
}
