//! Principals.

use stead_domain::ids::{PrincipalId, ProjectId};
use stead_domain::names;
use stead_domain::principal::Principal;

use crate::error::Result;
use crate::unit::Unit;
use crate::value::{Row, Value};

fn read(row: &Row) -> Result<Principal> {
    let mut row = row.reader();
    Ok(Principal {
        id: row.parsed()?,
        home: Some(row.text()?).filter(|home| !home.is_empty()).and_then(|home| home.parse().ok()),
        kind: row.parsed()?,
        name: row.text()?,
        created_at: row.time()?,
    })
}

fn home(project: Option<ProjectId>) -> Value {
    project.map(|project| project.to_string()).unwrap_or_default().into()
}

pub async fn insert(unit: &mut Unit, principal: &Principal) -> Result<()> {
    unit.execute(
        "INSERT INTO principals (id, home, kind, name, name_key, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            principal.id.into(),
            home(principal.home),
            principal.kind.into(),
            (&principal.name).into(),
            names::key(&principal.name).into(),
            principal.created_at.into(),
        ],
    )
    .await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, id: PrincipalId) -> Result<Option<Principal>> {
    let row = unit.fetch_optional("SELECT id, home, kind, name, created_at FROM principals WHERE id = $1", &[id.into()]).await?;
    row.as_ref().map(read).transpose()
}

pub async fn find_by_name(unit: &mut Unit, project: Option<ProjectId>, name: &str) -> Result<Option<Principal>> {
    let row = unit
        .fetch_optional(
            "SELECT id, home, kind, name, created_at FROM principals WHERE home = $1 AND name_key = $2",
            &[home(project), names::key(name).into()],
        )
        .await?;
    row.as_ref().map(read).transpose()
}
