//! Machines that run a server.

use stead_domain::host::Host;
use stead_domain::ids::HostId;

use crate::error::Result;
use crate::unit::Unit;
use crate::value::Row;

fn read(row: &Row) -> Result<Host> {
    let mut row = row.reader();
    Ok(Host { id: row.parsed()?, address: row.text()?, version: row.text()?, started_at: row.time()?, heartbeat_at: row.time()? })
}

/// Says that the host is there, as it is now.
pub async fn beat(unit: &mut Unit, host: &Host) -> Result<()> {
    unit.execute(
        "INSERT INTO hosts (id, address, version, started_at, heartbeat_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO UPDATE SET address = excluded.address, version = excluded.version, started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at",
        &[host.id.into(), (&host.address).into(), (&host.version).into(), host.started_at.into(), host.heartbeat_at.into()],
    )
    .await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, id: HostId) -> Result<Option<Host>> {
    let row = unit.fetch_optional("SELECT id, address, version, started_at, heartbeat_at FROM hosts WHERE id = $1", &[id.into()]).await?;
    row.as_ref().map(read).transpose()
}

pub async fn list(unit: &mut Unit) -> Result<Vec<Host>> {
    let rows = unit.fetch("SELECT id, address, version, started_at, heartbeat_at FROM hosts ORDER BY id", &[]).await?;
    rows.iter().map(read).collect()
}
