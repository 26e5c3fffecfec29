//! What is kept, how much of it, and what may go.

use stead_domain::Timestamp;
use stead_domain::ids::ProjectId;

use crate::error::Result;
use crate::unit::Unit;

/// Rows by kind.
pub async fn counts(unit: &mut Unit) -> Result<Vec<(&'static str, u64)>> {
    let mut counts = Vec::new();
    for (what, sql) in [
        ("projects", "SELECT COUNT(*) FROM projects WHERE deleted_at IS NULL"),
        ("environments", "SELECT COUNT(*) FROM environments WHERE destroyed_at IS NULL"),
        ("tombstones", "SELECT COUNT(*) FROM environments WHERE destroyed_at IS NOT NULL"),
        ("definition versions", "SELECT COUNT(*) FROM definition_versions"),
        ("processes", "SELECT COUNT(*) FROM processes"),
        ("checkpoints", "SELECT COUNT(*) FROM checkpoints WHERE deleted_at IS NULL"),
        ("audit records", "SELECT COUNT(*) FROM audit"),
        ("idempotency records", "SELECT COUNT(*) FROM idempotency"),
    ] {
        let row = unit.fetch_optional(sql, &[]).await?;
        counts.push((what, row.map_or(Ok(0), |row| row.reader().count())?));
    }
    Ok(counts)
}

/// What is older than it has to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Horizon {
    pub audit: Timestamp,
    pub tombstones: Timestamp,
    pub now: Timestamp,
}

pub async fn prunable(unit: &mut Unit, horizon: Horizon) -> Result<Vec<(&'static str, u64)>> {
    let mut counts = Vec::new();
    for (what, sql, before) in [
        ("audit records", "SELECT COUNT(*) FROM audit WHERE at < $1", horizon.audit),
        ("tombstones", "SELECT COUNT(*) FROM environments WHERE destroyed_at < $1", horizon.tombstones),
        ("idempotency records", "SELECT COUNT(*) FROM idempotency WHERE expires_at <= $1", horizon.now),
    ] {
        let row = unit.fetch_optional(sql, &[before.into()]).await?;
        counts.push((what, row.map_or(Ok(0), |row| row.reader().count())?));
    }
    Ok(counts)
}

/// The same by project, for those that are still there to be told. Idempotency records belong to callers and to no project.
pub async fn prunable_by_project(unit: &mut Unit, horizon: Horizon) -> Result<Vec<(ProjectId, &'static str, u64)>> {
    let mut counts = Vec::new();
    for (what, sql, before) in [
        (
            "audit_records",
            "SELECT p.id, COUNT(*) FROM audit a JOIN projects p ON p.id = a.project_id WHERE a.at < $1 AND p.deleted_at IS NULL
             GROUP BY p.id ORDER BY p.id",
            horizon.audit,
        ),
        (
            "tombstones",
            "SELECT p.id, COUNT(*) FROM environments e JOIN projects p ON p.id = e.project_id WHERE e.destroyed_at < $1 AND p.deleted_at IS NULL
             GROUP BY p.id ORDER BY p.id",
            horizon.tombstones,
        ),
    ] {
        for row in unit.fetch(sql, &[before.into()]).await? {
            let mut row = row.reader();
            counts.push((row.parsed()?, what, row.count()?));
        }
    }
    Ok(counts)
}

/// Removes it, and tells how much it was.
pub async fn prune(unit: &mut Unit, horizon: Horizon) -> Result<Vec<(&'static str, u64)>> {
    let audit = unit.execute("DELETE FROM audit WHERE at < $1", &[horizon.audit.into()]).await?;
    unit.execute(
        "DELETE FROM definition_versions WHERE environment_id IN (SELECT id FROM environments WHERE destroyed_at < $1)",
        &[horizon.tombstones.into()],
    )
    .await?;
    unit.execute(
        "DELETE FROM processes WHERE environment_id IN (SELECT id FROM environments WHERE destroyed_at < $1)",
        &[horizon.tombstones.into()],
    )
    .await?;
    unit.execute(
        "DELETE FROM checkpoints WHERE deleted_at < $1 OR environment_id IN (SELECT id FROM environments WHERE destroyed_at < $1)",
        &[horizon.tombstones.into()],
    )
    .await?;
    for sql in [
        "DELETE FROM tickets WHERE environment_id IN (SELECT id FROM environments WHERE destroyed_at < $1)",
        "DELETE FROM leases WHERE environment_id IN (SELECT id FROM environments WHERE destroyed_at < $1)",
        "DELETE FROM tickets WHERE sandbox_id IN (SELECT id FROM sandboxes WHERE destroyed_at < $1)",
        "DELETE FROM leases WHERE sandbox_id IN (SELECT id FROM sandboxes WHERE destroyed_at < $1)",
    ] {
        unit.execute(sql, &[horizon.tombstones.into()]).await?;
    }
    // Who held what is remembered for as long as what was done.
    unit.execute("DELETE FROM leases WHERE ended_at IS NOT NULL AND ended_at < $1 AND work IS NULL", &[horizon.audit.into()]).await?;
    let tombstones = unit.execute("DELETE FROM environments WHERE destroyed_at < $1", &[horizon.tombstones.into()]).await?;
    unit.execute(
        "DELETE FROM sandboxes WHERE destroyed_at < $1 AND id NOT IN (SELECT sandbox_id FROM environments)",
        &[horizon.tombstones.into()],
    )
    .await?;
    let idempotency = unit.execute("DELETE FROM idempotency WHERE expires_at <= $1", &[horizon.now.into()]).await?;
    Ok(vec![("audit records", audit), ("tombstones", tombstones), ("idempotency records", idempotency)])
}
