//! Audit records. They are written in the unit that makes the change.

use stead_domain::audit::AuditRecord;
use stead_domain::ids::ProjectId;
use stead_domain::page::PageRequest;

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, json};

fn read(row: &Row) -> Result<AuditRecord> {
    let mut row = row.reader();
    Ok(AuditRecord {
        id: row.parsed()?,
        project_id: row.parsed()?,
        at: row.time()?,
        principal_id: row.optional_parsed()?,
        action: row.text()?,
        target_type: row.text()?,
        target_id: row.text()?,
        source: row.text()?,
        request_id: row.optional_text()?,
        details: row.json()?,
    })
}

pub async fn insert(unit: &mut Unit, record: &AuditRecord) -> Result<()> {
    unit.execute(
        "INSERT INTO audit (id, project_id, at, principal_id, action, target_type, target_id, source, request_id, details)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            record.id.into(),
            record.project_id.into(),
            record.at.into(),
            record.principal_id.into(),
            (&record.action).into(),
            (&record.target_type).into(),
            (&record.target_id).into(),
            (&record.source).into(),
            record.request_id.as_deref().into(),
            json(&record.details),
        ],
    )
    .await?;
    Ok(())
}

/// Adds to the details of a record what was not known when it was written. Nothing else of it ever changes.
pub async fn set_details(unit: &mut Unit, record: &AuditRecord) -> Result<()> {
    unit.execute("UPDATE audit SET details = $2 WHERE id = $1", &[record.id.into(), json(&record.details)]).await?;
    Ok(())
}

#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    pub action: Option<String>,
    pub target_id: Option<String>,
}

pub async fn list(unit: &mut Unit, project: ProjectId, filter: &AuditFilter, page: &PageRequest) -> Result<Vec<AuditRecord>> {
    let sql = Sql::new("SELECT id, project_id, at, principal_id, action, target_type, target_id, source, request_id, details FROM audit")
        .bind(" WHERE project_id = ?", project)
        .bind_some(" AND action = ?", filter.action.as_deref())
        .bind_some(" AND target_id = ?", filter.target_id.as_deref())
        .bind_some(" AND id < ?", page.after.as_deref())
        .bind(" ORDER BY id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}
