//! The versions of an environment's definition. They are only ever added.

use stead_domain::environment::DefinitionVersion;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::PageRequest;

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, json};

fn read(row: &Row) -> Result<DefinitionVersion> {
    let mut row = row.reader();
    Ok(DefinitionVersion {
        version: row.count()?,
        fingerprint: row.text()?,
        created_by: row.optional_parsed()?,
        created_at: row.time()?,
        rolled_back_to: row.optional_count()?,
        spec: row.json()?,
    })
}

pub async fn insert(unit: &mut Unit, environment: EnvironmentId, version: &DefinitionVersion) -> Result<()> {
    unit.execute(
        "INSERT INTO definition_versions (environment_id, version, fingerprint, spec, created_by, created_at, rolled_back_to)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            environment.into(),
            version.version.into(),
            (&version.fingerprint).into(),
            json(&version.spec),
            version.created_by.into(),
            version.created_at.into(),
            version.rolled_back_to.into(),
        ],
    )
    .await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, environment: EnvironmentId, version: u64) -> Result<Option<DefinitionVersion>> {
    let row = unit
        .fetch_optional(
            "SELECT version, fingerprint, created_by, created_at, rolled_back_to, spec FROM definition_versions WHERE environment_id = $1 AND version = $2",
            &[environment.into(), version.into()],
        )
        .await?;
    row.as_ref().map(read).transpose()
}

/// Newest first; `before` is a version.
pub async fn list(unit: &mut Unit, environment: EnvironmentId, before: Option<i64>, page: &PageRequest) -> Result<Vec<DefinitionVersion>> {
    let sql = Sql::new("SELECT version, fingerprint, created_by, created_at, rolled_back_to, spec FROM definition_versions")
        .bind(" WHERE environment_id = ?", environment)
        .bind_some(" AND version < ?", before)
        .bind(" ORDER BY version DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}
