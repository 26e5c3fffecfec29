//! Projects.

use stead_domain::Timestamp;
use stead_domain::ids::{PrincipalId, ProjectId};
use stead_domain::page::PageRequest;
use stead_domain::project::Project;

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::Row;

const FIND: &str = "SELECT id, handle, name, created_at, updated_at FROM projects WHERE id = $1 AND deleted_at IS NULL";
const FIND_BY_HANDLE: &str = "SELECT id, handle, name, created_at, updated_at FROM projects WHERE handle = $1 AND deleted_at IS NULL";
const LOCK: &str = "SELECT id, handle, name, created_at, updated_at FROM projects t WHERE id = $1 AND deleted_at IS NULL";

fn read(row: &Row) -> Result<Project> {
    let mut row = row.reader();
    Ok(Project { id: row.parsed()?, handle: row.text()?, name: row.text()?, created_at: row.time()?, updated_at: row.time()? })
}

pub async fn insert(unit: &mut Unit, project: &Project) -> Result<()> {
    unit.execute(
        "INSERT INTO projects (id, handle, name, created_at, updated_at) VALUES ($1, $2, $3, $4, $5)",
        &[project.id.into(), (&project.handle).into(), (&project.name).into(), project.created_at.into(), project.updated_at.into()],
    )
    .await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, id: ProjectId) -> Result<Option<Project>> {
    unit.fetch_optional(FIND, &[id.into()]).await?.as_ref().map(read).transpose()
}

pub async fn find_by_handle(unit: &mut Unit, handle: &str) -> Result<Option<Project>> {
    unit.fetch_optional(FIND_BY_HANDLE, &[handle.into()]).await?.as_ref().map(read).transpose()
}

/// Finds a live project and keeps others from changing or deleting it until the unit ends.
pub async fn lock(unit: &mut Unit, id: ProjectId) -> Result<Option<Project>> {
    unit.fetch_locked(LOCK, &[id.into()]).await?.as_ref().map(read).transpose()
}

/// All projects, or those that a principal is a member of.
pub async fn list(unit: &mut Unit, member: Option<PrincipalId>, only: Option<ProjectId>, page: &PageRequest) -> Result<Vec<Project>> {
    let sql = Sql::new("SELECT id, handle, name, created_at, updated_at FROM projects WHERE deleted_at IS NULL")
        .bind_some(" AND id IN (SELECT project_id FROM members WHERE principal_id = ?)", member)
        .bind_some(" AND id = ?", only)
        .bind_some(" AND id < ?", page.after.as_deref())
        .bind(" ORDER BY id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

pub async fn save(unit: &mut Unit, project: &Project) -> Result<()> {
    unit.execute(
        "UPDATE projects SET handle = $2, name = $3, updated_at = $4 WHERE id = $1",
        &[project.id.into(), (&project.handle).into(), (&project.name).into(), project.updated_at.into()],
    )
    .await?;
    Ok(())
}

pub async fn mark_deleted(unit: &mut Unit, id: ProjectId, now: Timestamp) -> Result<()> {
    unit.execute("UPDATE projects SET deleted_at = $2, updated_at = $2 WHERE id = $1", &[id.into(), now.into()]).await?;
    Ok(())
}
