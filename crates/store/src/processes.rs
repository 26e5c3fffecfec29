//! Processes: what was started, by whom, and how it ended.

use stead_domain::Timestamp;
use stead_domain::duration::Duration;
use stead_domain::ids::{EnvironmentId, HostId, ProcessId, ProjectId};
use stead_domain::page::PageRequest;
use stead_domain::process::{Process, ProcessExit, ProcessPurpose, ProcessStatus};

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, json, optional_json};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, project_id, environment_id, sandbox_id, status, argv, cwd, stdin, terminal, timeout_ms, spec_version, fence, started_by,
             created_at, exit, error, purpose, warnings FROM processes t WHERE ",
            $rest
        )
    };
}

fn read(row: &Row) -> Result<Process> {
    let mut row = row.reader();
    Ok(Process {
        id: row.parsed()?,
        project_id: row.parsed()?,
        environment_id: row.parsed()?,
        sandbox_id: row.parsed()?,
        status: row.parsed()?,
        argv: row.json()?,
        cwd: row.optional_text()?,
        stdin: row.parsed()?,
        terminal: row.optional_json()?,
        timeout: row.optional_count()?.map(Duration::from_millis),
        spec_version: row.count()?,
        fence: row.count()?,
        started_by: row.optional_parsed()?,
        created_at: row.time()?,
        exit: row.optional_json()?,
        error: row.optional_text()?,
        purpose: row.optional_parsed()?,
        warnings: row.optional_json()?.unwrap_or_default(),
    })
}

/// Writes a new one, kept by this host; by none when any server may speak for it.
pub async fn insert(unit: &mut Unit, process: &Process, host: Option<HostId>) -> Result<()> {
    unit.execute(
        "INSERT INTO processes (id, project_id, environment_id, sandbox_id, host_id, status, argv, cwd, stdin, terminal, timeout_ms, spec_version,
         fence, started_by, created_at, purpose, warnings) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        &[
            process.id.into(),
            process.project_id.into(),
            process.environment_id.into(),
            process.sandbox_id.into(),
            host.into(),
            process.status.into(),
            json(&process.argv),
            process.cwd.as_deref().into(),
            process.stdin.into(),
            optional_json(process.terminal.as_ref()),
            process.timeout.map(Duration::as_millis).into(),
            process.spec_version.into(),
            process.fence.into(),
            process.started_by.into(),
            process.created_at.into(),
            process.purpose.into(),
            optional_json(Some(&process.warnings).filter(|warnings| !warnings.is_empty())),
        ],
    )
    .await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, project: ProjectId, environment: EnvironmentId, id: ProcessId) -> Result<Option<Process>> {
    let row = unit
        .fetch_optional(select!("id = $1 AND environment_id = $2 AND project_id = $3"), &[id.into(), environment.into(), project.into()])
        .await?;
    row.as_ref().map(read).transpose()
}

/// Finds one for the server itself, whatever its project.
pub async fn find_any(unit: &mut Unit, id: ProcessId) -> Result<Option<Process>> {
    unit.fetch_optional(select!("id = $1"), &[id.into()]).await?.as_ref().map(read).transpose()
}

/// The last one that was started for a purpose under a version of the definition.
pub async fn latest(unit: &mut Unit, environment: EnvironmentId, purpose: ProcessPurpose, spec_version: u64) -> Result<Option<Process>> {
    let row = unit
        .fetch_optional(
            select!("environment_id = $1 AND purpose = $2 AND spec_version = $3 ORDER BY id DESC LIMIT 1"),
            &[environment.into(), purpose.into(), spec_version.into()],
        )
        .await?;
    row.as_ref().map(read).transpose()
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessFilter {
    pub status: Option<ProcessStatus>,
    /// Only those that are not over.
    pub unfinished: bool,
}

/// Those of an environment, newest first.
pub async fn list(unit: &mut Unit, environment: EnvironmentId, filter: &ProcessFilter, page: &PageRequest) -> Result<Vec<Process>> {
    let mut sql = Sql::new(select!("")).bind("environment_id = ?", environment).bind_some(" AND status = ?", filter.status);
    if filter.unfinished {
        sql = sql.push(" AND ended_at IS NULL");
    }
    let sql = sql.bind_some(" AND id < ?", page.after.as_deref()).bind(" ORDER BY id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// Notes that the program runs. One that is over stays over.
pub async fn set_running(unit: &mut Unit, id: ProcessId) -> Result<bool> {
    let changed = unit.execute("UPDATE processes SET status = 'running' WHERE id = $1 AND status = 'starting'", &[id.into()]).await?;
    Ok(changed == 1)
}

/// Notes how it ended, unless that is known already.
pub async fn finish(unit: &mut Unit, id: ProcessId, exit: &ProcessExit) -> Result<bool> {
    let changed = unit
        .execute(
            "UPDATE processes SET status = 'exited', exit = $2, ended_at = $3 WHERE id = $1 AND ended_at IS NULL",
            &[id.into(), json(exit), exit.ended_at.into()],
        )
        .await?;
    Ok(changed == 1)
}

/// Notes that there was never a program, unless it is known how it ended.
pub async fn fail(unit: &mut Unit, id: ProcessId, error: &str, now: Timestamp) -> Result<bool> {
    let changed = unit
        .execute(
            "UPDATE processes SET status = 'failed', error = $2, ended_at = $3 WHERE id = $1 AND ended_at IS NULL",
            &[id.into(), error.into(), now.into()],
        )
        .await?;
    Ok(changed == 1)
}

/// The next ones that are not over and that this host answers for, in id order.
pub async fn unfinished(unit: &mut Unit, host: HostId, after: Option<ProcessId>) -> Result<Vec<Process>> {
    let sql = Sql::new(select!("ended_at IS NULL"))
        .bind(" AND (host_id IS NULL OR host_id = ?)", host)
        .bind_some(" AND id > ?", after)
        .push(" ORDER BY id LIMIT 500");
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// Some of those that were over before a time and that this host answers for: whose output may go.
pub async fn over_before(unit: &mut Unit, host: HostId, before: Timestamp) -> Result<Vec<Process>> {
    let sql = Sql::new(select!("ended_at IS NOT NULL"))
        .bind(" AND ended_at < ?", before)
        .bind(" AND (host_id IS NULL OR host_id = ?)", host)
        .push(" ORDER BY ended_at LIMIT 500");
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

pub async fn count_over_before(unit: &mut Unit, host: HostId, before: Timestamp) -> Result<u64> {
    let row = unit
        .fetch_optional(
            "SELECT COUNT(*) FROM processes WHERE ended_at IS NOT NULL AND ended_at < $1 AND (host_id IS NULL OR host_id = $2)",
            &[before.into(), host.into()],
        )
        .await?;
    row.map_or(Ok(0), |row| row.reader().count())
}

pub async fn delete(unit: &mut Unit, id: ProcessId) -> Result<bool> {
    Ok(unit.execute("DELETE FROM processes WHERE id = $1", &[id.into()]).await? == 1)
}

/// Removes all of an environment.
pub async fn delete_of_environment(unit: &mut Unit, environment: EnvironmentId) -> Result<u64> {
    unit.execute("DELETE FROM processes WHERE environment_id = $1", &[environment.into()]).await
}
