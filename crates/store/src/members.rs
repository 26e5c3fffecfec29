//! Who belongs to a project, and in which role.

use stead_domain::Timestamp;
use stead_domain::ids::{PrincipalId, ProjectId};
use stead_domain::page::PageRequest;
use stead_domain::principal::{Member, Role};

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::Row;

fn read(row: &Row) -> Result<Member> {
    let mut row = row.reader();
    Ok(Member {
        principal_id: row.parsed()?,
        name: row.text()?,
        kind: row.parsed()?,
        role: row.parsed()?,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}

/// Adds a member; false when it is one already.
pub async fn insert(unit: &mut Unit, project: ProjectId, principal: PrincipalId, role: Role, now: Timestamp) -> Result<bool> {
    let added = unit
        .execute(
            "INSERT INTO members (project_id, principal_id, role, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)
             ON CONFLICT (project_id, principal_id) DO NOTHING",
            &[project.into(), principal.into(), role.into(), now.into()],
        )
        .await?;
    Ok(added == 1)
}

pub async fn role(unit: &mut Unit, project: ProjectId, principal: PrincipalId) -> Result<Option<Role>> {
    let row = unit
        .fetch_optional("SELECT role FROM members WHERE project_id = $1 AND principal_id = $2", &[project.into(), principal.into()])
        .await?;
    row.map(|row| row.reader().parsed()).transpose()
}

pub async fn find(unit: &mut Unit, project: ProjectId, principal: PrincipalId) -> Result<Option<Member>> {
    let row = unit
        .fetch_optional(
            "SELECT m.principal_id, p.name, p.kind, m.role, m.created_at, m.updated_at
             FROM members m JOIN principals p ON p.id = m.principal_id WHERE m.project_id = $1 AND m.principal_id = $2",
            &[project.into(), principal.into()],
        )
        .await?;
    row.as_ref().map(read).transpose()
}

pub async fn list(unit: &mut Unit, project: ProjectId, page: &PageRequest) -> Result<Vec<Member>> {
    let sql = Sql::new(
        "SELECT m.principal_id, p.name, p.kind, m.role, m.created_at, m.updated_at
         FROM members m JOIN principals p ON p.id = m.principal_id",
    )
    .bind(" WHERE m.project_id = ?", project)
    .bind_some(" AND m.principal_id < ?", page.after.as_deref())
    .bind(" ORDER BY m.principal_id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

pub async fn set_role(unit: &mut Unit, project: ProjectId, principal: PrincipalId, role: Role, now: Timestamp) -> Result<()> {
    unit.execute(
        "UPDATE members SET role = $3, updated_at = $4 WHERE project_id = $1 AND principal_id = $2",
        &[project.into(), principal.into(), role.into(), now.into()],
    )
    .await?;
    Ok(())
}

pub async fn delete(unit: &mut Unit, project: ProjectId, principal: PrincipalId) -> Result<()> {
    unit.execute("DELETE FROM members WHERE project_id = $1 AND principal_id = $2", &[project.into(), principal.into()]).await?;
    Ok(())
}

pub async fn owners(unit: &mut Unit, project: ProjectId) -> Result<u64> {
    let row = unit
        .fetch_optional("SELECT COUNT(*) FROM members WHERE project_id = $1 AND role = $2", &[project.into(), Role::Owner.into()])
        .await?;
    row.map_or(Ok(0), |row| row.reader().count())
}
