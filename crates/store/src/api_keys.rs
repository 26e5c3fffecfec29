//! API keys. Only the SHA-256 of a key is here.

use stead_domain::Timestamp;
use stead_domain::api_key::ApiKey;
use stead_domain::ids::{ApiKeyId, PrincipalId, ProjectId};
use stead_domain::page::PageRequest;

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, json};

/// What a presented key stands for.
#[derive(Clone, Debug)]
pub struct Presented {
    pub key: ApiKey,
    /// Whether it reaches only its own project.
    pub pinned: bool,
    pub revoked_at: Option<Timestamp>,
    pub project_handle: String,
}

fn read(row: &Row) -> Result<ApiKey> {
    let mut row = row.reader();
    read_columns(&mut row)
}

fn read_columns(row: &mut crate::value::RowReader<'_>) -> Result<ApiKey> {
    Ok(ApiKey {
        id: row.parsed()?,
        name: row.text()?,
        key_prefix: row.text()?,
        project_id: row.parsed()?,
        principal_id: row.parsed()?,
        expires_at: row.optional_time()?,
        last_used_at: row.optional_time()?,
        tags: row.json()?,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}

pub async fn insert(unit: &mut Unit, key: &ApiKey, hash: &str, pinned: bool) -> Result<()> {
    unit.execute(
        "INSERT INTO api_keys (id, project_id, principal_id, name, key_hash, key_prefix, pinned, tags, expires_at, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &[
            key.id.into(),
            key.project_id.into(),
            key.principal_id.into(),
            (&key.name).into(),
            hash.into(),
            (&key.key_prefix).into(),
            pinned.into(),
            json(&key.tags),
            key.expires_at.into(),
            key.created_at.into(),
            key.updated_at.into(),
        ],
    )
    .await?;
    Ok(())
}

/// The key of that hash, with what is needed to judge it: one statement, because every request asks it.
pub async fn find_by_hash(unit: &mut Unit, hash: &str) -> Result<Option<Presented>> {
    let row = unit
        .fetch_optional(
            "SELECT k.id, k.name, k.key_prefix, k.project_id, k.principal_id, k.expires_at, k.last_used_at, k.tags, k.created_at, k.updated_at,
                    k.pinned, k.revoked_at, p.handle
             FROM api_keys k JOIN projects p ON p.id = k.project_id WHERE k.key_hash = $1 AND (p.deleted_at IS NULL OR k.pinned = 0)",
            &[hash.into()],
        )
        .await?;
    row.map(|row| {
        let mut row = row.reader();
        Ok(Presented { key: read_columns(&mut row)?, pinned: row.flag()?, revoked_at: row.optional_time()?, project_handle: row.text()? })
    })
    .transpose()
}

pub async fn find(unit: &mut Unit, project: ProjectId, id: ApiKeyId) -> Result<Option<ApiKey>> {
    let row = unit
        .fetch_optional(
            "SELECT id, name, key_prefix, project_id, principal_id, expires_at, last_used_at, tags, created_at, updated_at
             FROM api_keys WHERE project_id = $1 AND id = $2 AND revoked_at IS NULL",
            &[project.into(), id.into()],
        )
        .await?;
    row.as_ref().map(read).transpose()
}

pub async fn list(unit: &mut Unit, project: ProjectId, page: &PageRequest) -> Result<Vec<ApiKey>> {
    let sql = Sql::new(
        "SELECT id, name, key_prefix, project_id, principal_id, expires_at, last_used_at, tags, created_at, updated_at
         FROM api_keys WHERE revoked_at IS NULL",
    )
    .bind(" AND project_id = ?", project)
    .bind_some(" AND id < ?", page.after.as_deref())
    .bind(" ORDER BY id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// Revokes one; false when there is none that was still good. The operator's own key is not a project's to revoke.
pub async fn revoke(unit: &mut Unit, project: ProjectId, id: ApiKeyId, now: Timestamp) -> Result<bool> {
    let changed = unit
        .execute(
            "UPDATE api_keys SET revoked_at = $3, updated_at = $3 WHERE project_id = $1 AND id = $2 AND pinned = 1 AND revoked_at IS NULL",
            &[project.into(), id.into(), now.into()],
        )
        .await?;
    Ok(changed == 1)
}

/// Revokes all of a principal's keys in a project.
pub async fn revoke_of(unit: &mut Unit, project: ProjectId, principal: PrincipalId, now: Timestamp) -> Result<u64> {
    unit.execute(
        "UPDATE api_keys SET revoked_at = $3, updated_at = $3 WHERE project_id = $1 AND principal_id = $2 AND pinned = 1 AND revoked_at IS NULL",
        &[project.into(), principal.into(), now.into()],
    )
    .await
}

pub async fn touch(unit: &mut Unit, id: ApiKeyId, now: Timestamp) -> Result<()> {
    unit.execute("UPDATE api_keys SET last_used_at = $2 WHERE id = $1", &[id.into(), now.into()]).await?;
    Ok(())
}

/// Whether a key is neither revoked nor expired.
pub async fn is_good(unit: &mut Unit, id: ApiKeyId, now: Timestamp) -> Result<bool> {
    let row = unit
        .fetch_optional(
            "SELECT id FROM api_keys WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)",
            &[id.into(), now.into()],
        )
        .await?;
    Ok(row.is_some())
}
