//! Sandboxes.

use stead_domain::Timestamp;
use stead_domain::checkpoint::Stack;
use stead_domain::environment::ProviderStatus;
use stead_domain::ids::{HostId, ProjectId, SandboxId};
use stead_domain::page::PageRequest;
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::{FENCE_JUMP, Sandbox};

use crate::checkpoints;
use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, Value};

const FIND: &str = "SELECT id, project_id, provider, status, resource_id, resource_name, host_id, made_for, fence, last_error, observed_at,
    created_at, updated_at, destroyed_at, upper, layers, checkpoint_id FROM sandboxes t WHERE id = $1";
const LIST: &str = "SELECT id, project_id, provider, status, resource_id, resource_name, host_id, made_for, fence, last_error, observed_at,
    created_at, updated_at, destroyed_at, upper, layers, checkpoint_id FROM sandboxes t WHERE destroyed_at IS NULL";

fn read(row: &Row) -> Result<Sandbox> {
    let mut row = row.reader();
    Ok(Sandbox {
        id: row.parsed()?,
        project_id: row.parsed()?,
        provider: row.parsed()?,
        status: row.parsed()?,
        resource_id: row.optional_text()?,
        resource_name: row.optional_text()?,
        host_id: row.optional_parsed()?,
        made_for: row.optional_parsed()?,
        fence: row.count()?,
        confirmed_in: None,
        last_error: row.optional_text()?,
        observed_at: row.optional_time()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        destroyed_at: row.optional_time()?,
        stack: Stack { upper: row.optional_parsed()?, below: row.optional_json()?.unwrap_or_default() },
        checkpoint_id: row.optional_parsed()?,
    })
}

pub async fn insert(unit: &mut Unit, sandbox: &Sandbox) -> Result<()> {
    unit.execute(
        "INSERT INTO sandboxes (id, project_id, provider, status, resource_id, resource_name, host_id, made_for, fence, last_error, created_at, updated_at,
         upper, layers, checkpoint_id, confirmed_in) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
        &[
            sandbox.id.into(),
            sandbox.project_id.into(),
            sandbox.provider.into(),
            sandbox.status.into(),
            sandbox.resource_id.as_deref().into(),
            sandbox.resource_name.as_deref().into(),
            sandbox.host_id.into(),
            sandbox.made_for.into(),
            sandbox.fence.into(),
            sandbox.last_error.as_deref().into(),
            sandbox.created_at.into(),
            sandbox.updated_at.into(),
            sandbox.stack.upper.into(),
            checkpoints::stored(&sandbox.stack.below),
            sandbox.checkpoint_id.into(),
            Value::Integer(sandbox.confirmed_in),
        ],
    )
    .await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, id: SandboxId) -> Result<Option<Sandbox>> {
    unit.fetch_optional(FIND, &[id.into()]).await?.as_ref().map(read).transpose()
}

pub async fn lock(unit: &mut Unit, id: SandboxId) -> Result<Option<Sandbox>> {
    unit.fetch_locked(FIND, &[id.into()]).await?.as_ref().map(read).transpose()
}

pub async fn list(unit: &mut Unit, project: ProjectId, page: &PageRequest) -> Result<Vec<Sandbox>> {
    let sql = Sql::new(LIST)
        .bind(" AND project_id = ?", project)
        .bind_some(" AND id < ?", page.after.as_deref())
        .bind(" ORDER BY id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// The next live sandboxes of a provider that this host answers for, in id order: the janitor walks them page by page.
pub async fn of_host(unit: &mut Unit, provider: ProviderName, host: Option<HostId>, after: Option<SandboxId>) -> Result<Vec<Sandbox>> {
    let sql = Sql::new(LIST)
        .bind(" AND provider = ?", provider)
        .bind_some(" AND host_id = ?", host)
        .bind_some(" AND id > ?", after)
        .push(" ORDER BY id LIMIT 500");
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// Those of no environment that a server left between two steps. Only a local sandbox's own host sees it.
pub async fn unfinished(unit: &mut Unit, host: HostId) -> Result<Vec<SandboxId>> {
    let rows = unit
        .fetch(
            "SELECT id FROM sandboxes WHERE status IN ('provisioning', 'destroying') AND made_for IS NULL AND (host_id IS NULL OR host_id = $1)
             ORDER BY updated_at LIMIT 500",
            &[host.into()],
        )
        .await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// Marks those of no environment in deleted projects as going, and tells which they are.
pub async fn doom_of_deleted_projects(unit: &mut Unit, now: Timestamp) -> Result<Vec<SandboxId>> {
    let rows = unit
        .fetch(
            "UPDATE sandboxes SET status = 'destroying', updated_at = $1 WHERE made_for IS NULL AND destroyed_at IS NULL AND status <> 'destroying'
             AND project_id IN (SELECT id FROM projects WHERE deleted_at IS NOT NULL) RETURNING id",
            &[now.into()],
        )
        .await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// Writes everything that may change.
pub async fn save(unit: &mut Unit, sandbox: &Sandbox) -> Result<()> {
    unit.execute(
        "UPDATE sandboxes SET status = $2, resource_id = $3, resource_name = $4, host_id = $5, last_error = $6, updated_at = $7, destroyed_at = $8,
         made_for = $9 WHERE id = $1",
        &[
            sandbox.id.into(),
            sandbox.status.into(),
            sandbox.resource_id.as_deref().into(),
            sandbox.resource_name.as_deref().into(),
            sandbox.host_id.into(),
            sandbox.last_error.as_deref().into(),
            sandbox.updated_at.into(),
            sandbox.destroyed_at.into(),
            sandbox.made_for.into(),
        ],
    )
    .await?;
    Ok(())
}

/// Notes what the provider made. One that was marked for removal meanwhile stays marked.
pub async fn mark_ready(unit: &mut Unit, id: SandboxId, resource_id: &str, resource_name: &str, now: Timestamp) -> Result<()> {
    unit.execute(
        "UPDATE sandboxes SET status = 'ready', resource_id = $2, resource_name = $3, last_error = NULL, updated_at = $4,
         observed_state = 'ready', observed_message = NULL, observed_at = $4 WHERE id = $1 AND status NOT IN ('destroying', 'destroyed')",
        &[id.into(), resource_id.into(), resource_name.into(), now.into()],
    )
    .await?;
    Ok(())
}

/// Notes what the provider said.
pub async fn observe(unit: &mut Unit, id: SandboxId, status: &ProviderStatus) -> Result<()> {
    unit.execute(
        "UPDATE sandboxes SET observed_state = $2, observed_message = $3, observed_at = $4 WHERE id = $1",
        &[id.into(), (&status.state).into(), status.message.as_deref().into(), status.observed_at.into()],
    )
    .await?;
    Ok(())
}

/// Live environments that use the sandbox.
pub async fn users(unit: &mut Unit, id: SandboxId) -> Result<u64> {
    let row = unit.fetch_optional("SELECT COUNT(*) FROM environments WHERE sandbox_id = $1 AND deleted_at IS NULL", &[id.into()]).await?;
    row.map_or(Ok(0), |row| row.reader().count())
}

/// Throws every fence far ahead, after a restore: none that was given out since the backup is ever given out again, and whoever it was given
/// to is behind the next barrier.
pub(crate) async fn jump_fences(unit: &mut Unit) -> Result<u64> {
    unit.execute(
        "UPDATE sandboxes SET fence = fence + $1, dirty = fence + $1, not_before_era = NULL, not_before = NULL, confirmed_in = NULL,
         due_era = NULL, due = NULL WHERE destroyed_at IS NULL",
        &[FENCE_JUMP.into()],
    )
    .await
}
