//! Secrets: who set which name and when, and the last value, sealed.

use stead_domain::Timestamp;
use stead_domain::ids::{PrincipalId, ProjectId, SecretId};
use stead_domain::page::PageRequest;
use stead_domain::secret::{Secret, SecretVersion};

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, RowReader, Value};

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT id, project_id, name, version, created_by, created_at, updated_by, updated_at FROM secrets WHERE ", $rest)
    };
}

fn read(row: &Row) -> Result<Secret> {
    read_columns(&mut row.reader())
}

fn read_columns(row: &mut RowReader<'_>) -> Result<Secret> {
    Ok(Secret {
        id: row.parsed()?,
        project_id: row.parsed()?,
        name: row.text()?,
        version: row.count()?,
        created_by: row.parsed()?,
        created_at: row.time()?,
        updated_by: row.parsed()?,
        updated_at: row.time()?,
    })
}

/// A value as it lies in the store.
#[derive(Clone, Debug)]
pub struct Sealed {
    pub secret: Secret,
    pub sealed: Vec<u8>,
}

/// Writes a new one, or the next version of one that is there. The value before goes.
pub async fn set(unit: &mut Unit, secret: &Secret, sealed: &[u8], key_id: &str) -> Result<()> {
    unit.execute(
        "INSERT INTO secrets (id, project_id, name, version, sealed, key_id, created_by, created_at, updated_by, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (id) DO UPDATE SET version = excluded.version, sealed = excluded.sealed, key_id = excluded.key_id,
         updated_by = excluded.updated_by, updated_at = excluded.updated_at",
        &[
            secret.id.into(),
            secret.project_id.into(),
            (&secret.name).into(),
            secret.version.into(),
            Value::Blob(Some(sealed.to_vec())),
            key_id.into(),
            secret.created_by.into(),
            secret.created_at.into(),
            secret.updated_by.into(),
            secret.updated_at.into(),
        ],
    )
    .await?;
    unit.execute(
        "INSERT INTO secret_versions (secret_id, version, created_by, created_at) VALUES ($1, $2, $3, $4)",
        &[secret.id.into(), secret.version.into(), secret.updated_by.into(), secret.updated_at.into()],
    )
    .await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, project: ProjectId, name: &str) -> Result<Option<Secret>> {
    let row = unit.fetch_optional(select!("project_id = $1 AND name = $2 AND deleted_at IS NULL"), &[project.into(), name.into()]).await?;
    row.as_ref().map(read).transpose()
}

/// The value too. Nobody else is told it: who asks opens it for a place, and for nothing else.
pub async fn find_sealed(unit: &mut Unit, project: ProjectId, name: &str) -> Result<Option<Sealed>> {
    let row = unit
        .fetch_optional(
            "SELECT id, project_id, name, version, created_by, created_at, updated_by, updated_at, sealed FROM secrets
             WHERE project_id = $1 AND name = $2 AND deleted_at IS NULL AND sealed IS NOT NULL",
            &[project.into(), name.into()],
        )
        .await?;
    row.as_ref().map(read_sealed).transpose()
}

fn read_sealed(row: &Row) -> Result<Sealed> {
    let mut row = row.reader();
    Ok(Sealed { secret: read_columns(&mut row)?, sealed: row.optional_blob()?.unwrap_or_default() })
}

/// In the order of their ids, the newest first.
pub async fn list(unit: &mut Unit, project: ProjectId, page: &PageRequest) -> Result<Vec<Secret>> {
    let sql = Sql::new(select!("deleted_at IS NULL"))
        .bind(" AND project_id = ?", project)
        .bind_some(" AND id < ?", page.after.as_deref())
        .bind(" ORDER BY id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// The last versions, the newest first.
pub async fn versions(unit: &mut Unit, id: SecretId, current: u64) -> Result<Vec<SecretVersion>> {
    let rows = unit
        .fetch(
            "SELECT version, created_by, created_at FROM secret_versions WHERE secret_id = $1 ORDER BY version DESC LIMIT 1000",
            &[id.into()],
        )
        .await?;
    let read = |row: &Row| {
        let mut row = row.reader();
        let version = row.count()?;
        Ok(SecretVersion { version, current: version == current, created_by: row.parsed()?, created_at: row.time()? })
    };
    rows.iter().map(read).collect()
}

/// Forgets the value; the record stays, for those who ask what there was.
pub async fn delete(unit: &mut Unit, id: SecretId, by: PrincipalId, now: Timestamp) -> Result<()> {
    unit.execute(
        "UPDATE secrets SET deleted_at = $3, updated_by = $2, updated_at = $3, sealed = NULL, key_id = NULL WHERE id = $1 AND deleted_at IS NULL",
        &[id.into(), by.into(), now.into()],
    )
    .await?;
    Ok(())
}

/// Forgets all values of a project that is going.
pub async fn delete_of(unit: &mut Unit, project: ProjectId, by: PrincipalId, now: Timestamp) -> Result<u64> {
    unit.execute(
        "UPDATE secrets SET deleted_at = $3, updated_by = $2, updated_at = $3, sealed = NULL, key_id = NULL
         WHERE project_id = $1 AND deleted_at IS NULL",
        &[project.into(), by.into(), now.into()],
    )
    .await
}

/// Some of those that another key than this one sealed, after this one in the order of their ids.
pub async fn sealed_by_others(unit: &mut Unit, key_id: &str, after: Option<SecretId>) -> Result<Vec<Sealed>> {
    let sql = Sql::new(
        "SELECT id, project_id, name, version, created_by, created_at, updated_by, updated_at, sealed FROM secrets WHERE key_id IS NOT NULL",
    )
    .bind(" AND key_id <> ?", key_id)
    .bind_some(" AND id > ?", after)
    .push(" ORDER BY id LIMIT 100");
    unit.fetch_built(&sql).await?.iter().map(read_sealed).collect()
}

/// The same value under another key; nothing when it was set anew meanwhile.
pub async fn rewrap(unit: &mut Unit, id: SecretId, version: u64, sealed: &[u8], key_id: &str) -> Result<()> {
    unit.execute(
        "UPDATE secrets SET sealed = $3, key_id = $4 WHERE id = $1 AND version = $2 AND sealed IS NOT NULL",
        &[id.into(), version.into(), Value::Blob(Some(sealed.to_vec())), key_id.into()],
    )
    .await?;
    Ok(())
}

/// The projects that values are kept of.
pub async fn projects(unit: &mut Unit) -> Result<Vec<ProjectId>> {
    let rows = unit.fetch("SELECT DISTINCT project_id FROM secrets WHERE sealed IS NOT NULL ORDER BY project_id", &[]).await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// How many values are kept.
pub async fn count(unit: &mut Unit) -> Result<u64> {
    let row = unit.fetch_optional("SELECT COUNT(*) FROM secrets WHERE sealed IS NOT NULL", &[]).await?;
    row.map_or(Ok(0), |row| row.reader().count())
}

/// Forgets every value: none of them can be opened any more.
pub async fn abandon(unit: &mut Unit) -> Result<u64> {
    unit.execute("UPDATE secrets SET sealed = NULL, key_id = NULL WHERE sealed IS NOT NULL", &[]).await
}
