//! Checkpoints, and which layers are in use.

use std::collections::HashSet;

use stead_domain::Timestamp;
use stead_domain::checkpoint::{Checkpoint, Stack};
use stead_domain::ids::{CheckpointId, EnvironmentId, HostId, LayerId, ProjectId, SandboxId};
use stead_domain::page::PageRequest;

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, Value, json};

/// So many rows are read at a time where all of them are looked at.
const PAGE: u64 = 500;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, project_id, environment_id, sandbox_id, host_id, name, parent_id, state, reason, layers, sealed_in, message, created_by,
             created_at, durable_at, setup_version FROM checkpoints t WHERE ",
            $rest
        )
    };
}

fn read(row: &Row) -> Result<Checkpoint> {
    let mut row = row.reader();
    Ok(Checkpoint {
        id: row.parsed()?,
        project_id: row.parsed()?,
        environment_id: row.parsed()?,
        sandbox_id: row.parsed()?,
        host_id: row.optional_parsed()?,
        name: row.optional_text()?,
        parent_id: row.optional_parsed()?,
        state: row.parsed()?,
        reason: row.parsed()?,
        layers: row.json()?,
        sealed_in: row.optional_text()?,
        message: row.optional_text()?,
        created_by: row.optional_parsed()?,
        created_at: row.time()?,
        durable_at: row.optional_time()?,
        setup_version: row.optional_count()?,
    })
}

pub async fn insert(unit: &mut Unit, checkpoint: &Checkpoint) -> Result<()> {
    unit.execute(
        "INSERT INTO checkpoints (id, project_id, environment_id, sandbox_id, host_id, name, parent_id, state, reason, layers, sealed_in, message,
         created_by, created_at, durable_at, setup_version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
        &[
            checkpoint.id.into(),
            checkpoint.project_id.into(),
            checkpoint.environment_id.into(),
            checkpoint.sandbox_id.into(),
            checkpoint.host_id.into(),
            checkpoint.name.as_deref().into(),
            checkpoint.parent_id.into(),
            checkpoint.state.into(),
            checkpoint.reason.into(),
            json(&checkpoint.layers),
            checkpoint.sealed_in.as_deref().into(),
            checkpoint.message.as_deref().into(),
            checkpoint.created_by.into(),
            checkpoint.created_at.into(),
            checkpoint.durable_at.into(),
            checkpoint.setup_version.into(),
        ],
    )
    .await?;
    Ok(())
}

/// One that has not been deleted.
pub async fn find(unit: &mut Unit, project: ProjectId, id: CheckpointId) -> Result<Option<Checkpoint>> {
    let row = unit.fetch_optional(select!("id = $1 AND project_id = $2 AND deleted_at IS NULL"), &[id.into(), project.into()]).await?;
    row.as_ref().map(read).transpose()
}

/// The same, held until the unit ends.
pub async fn lock(unit: &mut Unit, project: ProjectId, id: CheckpointId) -> Result<Option<Checkpoint>> {
    let row = unit.fetch_locked(select!("id = $1 AND project_id = $2 AND deleted_at IS NULL"), &[id.into(), project.into()]).await?;
    row.as_ref().map(read).transpose()
}

/// Those of an environment, the latest first.
pub async fn list(unit: &mut Unit, environment: EnvironmentId, page: &PageRequest) -> Result<Vec<Checkpoint>> {
    let sql = Sql::new(select!("deleted_at IS NULL"))
        .bind(" AND environment_id = ?", environment)
        .bind_some(" AND id < ?", page.after.as_deref())
        .bind(" ORDER BY id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// The latest one of an environment.
pub async fn latest(unit: &mut Unit, environment: EnvironmentId) -> Result<Option<Checkpoint>> {
    let row =
        unit.fetch_optional(select!("environment_id = $1 AND deleted_at IS NULL ORDER BY id DESC LIMIT 1"), &[environment.into()]).await?;
    row.as_ref().map(read).transpose()
}

/// Those of a host that are sealed and not durable yet, oldest first.
pub async fn not_durable(unit: &mut Unit, host: HostId) -> Result<Vec<Checkpoint>> {
    let rows = unit
        .fetch(
            select!("host_id = $1 AND state = 'sealed' AND deleted_at IS NULL AND message IS NULL ORDER BY id LIMIT 500"),
            &[host.into()],
        )
        .await?;
    rows.iter().map(read).collect()
}

pub async fn mark_durable(unit: &mut Unit, id: CheckpointId, now: Timestamp) -> Result<()> {
    unit.execute("UPDATE checkpoints SET state = 'durable', durable_at = $2 WHERE id = $1 AND state = 'sealed'", &[id.into(), now.into()])
        .await?;
    Ok(())
}

/// Says why it never becomes durable.
pub async fn mark_torn(unit: &mut Unit, id: CheckpointId, message: &str) -> Result<()> {
    unit.execute("UPDATE checkpoints SET message = $2 WHERE id = $1 AND state = 'sealed'", &[id.into(), message.into()]).await?;
    Ok(())
}

/// Whether it was there.
pub async fn delete(unit: &mut Unit, id: CheckpointId, now: Timestamp) -> Result<bool> {
    let count =
        unit.execute("UPDATE checkpoints SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL", &[id.into(), now.into()]).await?;
    Ok(count > 0)
}

/// Those of an environment that goes.
pub async fn delete_of(unit: &mut Unit, environment: EnvironmentId, now: Timestamp) -> Result<u64> {
    unit.execute(
        "UPDATE checkpoints SET deleted_at = $2 WHERE environment_id = $1 AND deleted_at IS NULL",
        &[environment.into(), now.into()],
    )
    .await
}

/// What a sandbox sees from now on, and what that comes from.
pub async fn set_stack(unit: &mut Unit, sandbox: SandboxId, stack: &Stack, from: Option<CheckpointId>, now: Timestamp) -> Result<()> {
    unit.execute(
        "UPDATE sandboxes SET upper = $2, layers = $3, checkpoint_id = $4, updated_at = $5 WHERE id = $1",
        &[sandbox.into(), stack.upper.into(), stored(&stack.below), from.into(), now.into()],
    )
    .await?;
    Ok(())
}

/// Layers as they are stored in the row of a sandbox.
pub(crate) fn stored(layers: &[LayerId]) -> Value {
    if layers.is_empty() { Value::Text(None) } else { json(&layers) }
}

/// Every layer of this host that a sandbox or a checkpoint needs.
pub async fn layers_in_use(unit: &mut Unit, host: HostId) -> Result<HashSet<LayerId>> {
    let mut used = HashSet::new();
    let mut after: Option<SandboxId> = None;
    loop {
        let sql = Sql::new("SELECT id, upper, layers FROM sandboxes t WHERE destroyed_at IS NULL")
            .bind(" AND host_id = ?", host)
            .bind_some(" AND id > ?", after)
            .bind(" ORDER BY id LIMIT ?", PAGE);
        let rows = unit.fetch_built(&sql).await?;
        for row in &rows {
            let mut row = row.reader();
            let sandbox: SandboxId = row.parsed()?;
            let stack = Stack { upper: row.optional_parsed()?, below: row.optional_json()?.unwrap_or_default() };
            used.extend(stack.all(sandbox));
            after = Some(sandbox);
        }
        if (rows.len() as u64) < PAGE {
            break;
        }
    }
    let mut after: Option<CheckpointId> = None;
    loop {
        let sql = Sql::new("SELECT id, layers FROM checkpoints t WHERE deleted_at IS NULL")
            .bind(" AND host_id = ?", host)
            .bind_some(" AND id > ?", after)
            .bind(" ORDER BY id LIMIT ?", PAGE);
        let rows = unit.fetch_built(&sql).await?;
        for row in &rows {
            let mut row = row.reader();
            after = Some(row.parsed()?);
            used.extend(row.json::<Vec<LayerId>>()?);
        }
        if (rows.len() as u64) < PAGE {
            return Ok(used);
        }
    }
}
