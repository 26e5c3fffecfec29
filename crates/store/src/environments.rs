//! Environments, read together with the sandbox behind them.

use stead_domain::checkpoint::Stack;
use stead_domain::environment::{
    BoundToType, Environment, EnvironmentMode, EnvironmentStatus, Lifetime, ProviderStatus, Purpose, Runtime, Scope, ScopeFilter,
};
use stead_domain::ids::{EnvironmentId, HostId, ProjectId, SandboxId};
use stead_domain::page::PageRequest;
use stead_domain::provider::ProviderName;
use stead_domain::repository::RepositoryGrant;
use stead_domain::{Timestamp, names};

use crate::error::Result;
use crate::sql::Sql;
use crate::unit::Unit;
use crate::value::{Row, json, optional_json};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT t.id, t.project_id, t.sandbox_id, t.name, t.scope, t.provider, t.status, t.environment_mode, t.lifetime, t.purpose, t.owned_by,
             t.bound_to_type, t.bound_to_id, t.created_by, t.updated_by, t.template_id, t.capabilities, t.spec_version, t.spec, t.fingerprint,
             t.posture, t.tags, t.contains_secrets, t.allow_unenforced, t.cleanup_status, t.retention_policy, t.revision, t.last_seen_at,
             t.last_reconciled_at, t.last_error, t.created_at, t.updated_at, t.destroyed_at,
             s.provider, s.resource_id, s.resource_name, s.host_id, s.observed_state, s.observed_message, s.observed_at,
             s.upper, s.layers, s.checkpoint_id
             FROM environments t JOIN sandboxes s ON s.id = t.sandbox_id WHERE ",
            $rest
        )
    };
}

const FIND: &str = select!("t.id = $1");
const SHARING: &str = select!("t.sandbox_id = $1 AND t.destroyed_at IS NULL ORDER BY t.id");
const FIND_IN_PROJECT: &str = select!("t.project_id = $1 AND t.id = $2");

fn read(row: &Row) -> Result<Environment> {
    let mut row = row.reader();
    let mut environment = Environment {
        id: row.parsed()?,
        project_id: row.parsed()?,
        sandbox_id: row.parsed()?,
        name: row.text()?,
        scope: row.optional_parsed()?,
        provider: row.parsed()?,
        status: row.parsed()?,
        environment_mode: row.parsed()?,
        lifetime: row.parsed()?,
        purpose: row.optional_parsed()?,
        owned_by: row.optional_text()?,
        bound_to_type: row.optional_parsed()?,
        bound_to_id: row.optional_text()?,
        created_by: row.optional_parsed()?,
        updated_by: row.optional_parsed()?,
        template_id: row.optional_parsed()?,
        capabilities: row.json()?,
        spec_version: row.count()?,
        spec: row.json()?,
        fingerprint: row.text()?,
        runtime: Runtime { posture: row.json()?, ..Runtime::default() },
        tags: row.json()?,
        contains_secrets: row.flag()?,
        allow_unenforced: row.flag()?,
        cleanup_status: row.parsed()?,
        retention_policy: row.parsed()?,
        revision: row.count()?,
        lease_expires_at: None,
        held_by: None,
        last_seen_at: row.optional_time()?,
        last_reconciled_at: row.optional_time()?,
        last_error: row.optional_text()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        destroyed_at: row.optional_time()?,
        provider_resource_id: None,
        provider_resource_name: None,
        stack: Stack::default(),
    };
    environment.runtime.provider = row.optional_parsed()?;
    environment.provider_resource_id = row.optional_text()?;
    environment.provider_resource_name = row.optional_text()?;
    environment.runtime.host = row.optional_parsed()?;
    let (state, message, observed_at) = (row.optional_text()?, row.optional_text()?, row.optional_time()?);
    environment.runtime.provider_status = match (state, observed_at) {
        (Some(state), Some(observed_at)) => Some(ProviderStatus { state, observed_at, message }),
        _ => None,
    };
    environment.stack = Stack { upper: row.optional_parsed()?, below: row.optional_json()?.unwrap_or_default() };
    environment.runtime.layers = environment.stack.below.len() as u64;
    environment.runtime.checkpoint_id = row.optional_parsed()?;
    Ok(environment)
}

/// Names are unique among those with the same of this: the project's, or one owner's.
fn scope_key(environment: &Environment) -> String {
    match environment.scope {
        Some(Scope::Owner) => format!("owner:{}", environment.owned_by.as_deref().unwrap_or_default()),
        None => String::new(),
    }
}

/// Writes a new one. A live one of the same name makes it [`crate::StoreError::Duplicate`].
pub async fn insert(unit: &mut Unit, environment: &Environment) -> Result<()> {
    unit.execute(
        "INSERT INTO environments (id, project_id, sandbox_id, name, name_key, scope, scope_key, provider, status, environment_mode, lifetime,
         purpose, owned_by, bound_to_type, bound_to_id, created_by, updated_by, template_id, capabilities, spec_version, spec, fingerprint, posture,
         tags, contains_secrets, allow_unenforced, cleanup_status, retention_policy, revision, last_reconciled_at, last_error,
         created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28,
         $29, $30, $31, $32, $33)",
        &[
            environment.id.into(),
            environment.project_id.into(),
            environment.sandbox_id.into(),
            (&environment.name).into(),
            names::key(&environment.name).into(),
            environment.scope.into(),
            scope_key(environment).into(),
            environment.provider.into(),
            environment.status.into(),
            environment.environment_mode.into(),
            environment.lifetime.into(),
            environment.purpose.into(),
            environment.owned_by.as_deref().into(),
            environment.bound_to_type.into(),
            environment.bound_to_id.as_deref().into(),
            environment.created_by.into(),
            environment.updated_by.into(),
            environment.template_id.into(),
            json(&environment.capabilities),
            environment.spec_version.into(),
            json(&environment.spec),
            (&environment.fingerprint).into(),
            json(&environment.runtime.posture),
            json(&environment.tags),
            environment.contains_secrets.into(),
            environment.allow_unenforced.into(),
            environment.cleanup_status.into(),
            environment.retention_policy.into(),
            environment.revision.into(),
            environment.last_reconciled_at.into(),
            environment.last_error.as_deref().into(),
            environment.created_at.into(),
            environment.updated_at.into(),
        ],
    )
    .await?;
    Ok(())
}

/// Writes everything that may change. Leaving the live states frees the name.
pub async fn save(unit: &mut Unit, environment: &Environment) -> Result<()> {
    let deleted_at = (!environment.status.is_live()).then_some(environment.updated_at);
    unit.execute(
        "UPDATE environments SET name = $2, name_key = $3, scope = $4, scope_key = $5, status = $6, purpose = $7, owned_by = $8, bound_to_type = $9,
         bound_to_id = $10, updated_by = $11, capabilities = $12, spec_version = $13, spec = $14, fingerprint = $15, posture = $16, tags = $17,
         contains_secrets = $18, allow_unenforced = $19, cleanup_status = $20, retention_policy = $21, revision = $22, last_seen_at = $23,
         last_reconciled_at = $24, last_error = $25, updated_at = $26, deleted_at = COALESCE(deleted_at, $27), destroyed_at = $28 WHERE id = $1",
        &[
            environment.id.into(),
            (&environment.name).into(),
            names::key(&environment.name).into(),
            environment.scope.into(),
            scope_key(environment).into(),
            environment.status.into(),
            environment.purpose.into(),
            environment.owned_by.as_deref().into(),
            environment.bound_to_type.into(),
            environment.bound_to_id.as_deref().into(),
            environment.updated_by.into(),
            json(&environment.capabilities),
            environment.spec_version.into(),
            json(&environment.spec),
            (&environment.fingerprint).into(),
            json(&environment.runtime.posture),
            json(&environment.tags),
            environment.contains_secrets.into(),
            environment.allow_unenforced.into(),
            environment.cleanup_status.into(),
            environment.retention_policy.into(),
            environment.revision.into(),
            environment.last_seen_at.into(),
            environment.last_reconciled_at.into(),
            environment.last_error.as_deref().into(),
            environment.updated_at.into(),
            deleted_at.into(),
            environment.destroyed_at.into(),
        ],
    )
    .await?;
    Ok(())
}

pub async fn find(unit: &mut Unit, project: ProjectId, id: EnvironmentId) -> Result<Option<Environment>> {
    unit.fetch_optional(FIND_IN_PROJECT, &[project.into(), id.into()]).await?.as_ref().map(read).transpose()
}

/// Finds one for the server itself, whatever its project.
pub async fn find_any(unit: &mut Unit, id: EnvironmentId) -> Result<Option<Environment>> {
    unit.fetch_optional(FIND, &[id.into()]).await?.as_ref().map(read).transpose()
}

/// Finds one and keeps others from changing it until the unit ends.
pub async fn lock(unit: &mut Unit, id: EnvironmentId) -> Result<Option<Environment>> {
    unit.fetch_locked(FIND, &[id.into()]).await?.as_ref().map(read).transpose()
}

#[derive(Clone, Debug, Default)]
pub struct EnvironmentFilter {
    pub provider: Option<ProviderName>,
    pub status: Option<EnvironmentStatus>,
    pub lifetime: Option<Lifetime>,
    pub environment_mode: Option<EnvironmentMode>,
    pub purpose: Option<Purpose>,
    /// None for those without a scope, which is what a caller gets that does not ask.
    pub scope: Option<ScopeFilter>,
    pub owned_by: Option<String>,
    pub bound_to_type: Option<BoundToType>,
    pub bound_to_id: Option<String>,
    pub include_destroyed: bool,
    pub destroyed_since: Option<Timestamp>,
    /// Exactly this name, in any case.
    pub name: Option<String>,
    /// The beginning of an id or of a name.
    pub reference: Option<String>,
}

pub async fn list(unit: &mut Unit, project: ProjectId, filter: &EnvironmentFilter, page: &PageRequest) -> Result<Vec<Environment>> {
    let mut sql = Sql::new(select!("")).bind("t.project_id = ?", project);
    if !filter.include_destroyed && filter.status != Some(EnvironmentStatus::Destroyed) {
        sql = sql.push(" AND t.destroyed_at IS NULL");
    }
    sql = match filter.scope {
        None => sql.push(" AND t.scope IS NULL"),
        Some(ScopeFilter::Owner) => sql.bind(" AND t.scope = ?", Scope::Owner),
        Some(ScopeFilter::Any) => sql,
    };
    sql = sql
        .bind_some(" AND (t.destroyed_at IS NULL OR t.destroyed_at >= ?)", filter.destroyed_since)
        .bind_some(" AND t.provider = ?", filter.provider)
        .bind_some(" AND t.status = ?", filter.status)
        .bind_some(" AND t.lifetime = ?", filter.lifetime)
        .bind_some(" AND t.environment_mode = ?", filter.environment_mode)
        .bind_some(" AND t.purpose = ?", filter.purpose)
        .bind_some(" AND t.owned_by = ?", filter.owned_by.as_deref())
        .bind_some(" AND t.bound_to_type = ?", filter.bound_to_type)
        .bind_some(" AND t.bound_to_id = ?", filter.bound_to_id.as_deref())
        .bind_some(" AND t.name_key = ?", filter.name.as_deref().map(names::key));
    if let Some(reference) = &filter.reference {
        // Ranges instead of LIKE: they use the index, and no character of the reference is a pattern.
        let key = names::key(reference);
        let after = |text: &str| format!("{text}{}", char::MAX);
        sql = sql
            .bind(" AND ((t.id >= ?", reference)
            .bind(" AND t.id < ?", after(reference))
            .bind(") OR (t.name_key >= ?", &key)
            .bind(" AND t.name_key < ?", after(&key))
            .push("))");
    }
    sql = sql.bind_some(" AND t.id < ?", page.after.as_deref()).bind(" ORDER BY t.id DESC LIMIT ?", page.rows());
    unit.fetch_built(&sql).await?.iter().map(read).collect()
}

/// Those that a server left between two steps: still to be made or still to be removed. Only a local sandbox's own host sees it.
pub async fn unfinished(unit: &mut Unit, host: HostId) -> Result<Vec<EnvironmentId>> {
    let rows = unit
        .fetch(
            "SELECT t.id FROM environments t JOIN sandboxes s ON s.id = t.sandbox_id
             WHERE t.status IN ('provisioning', 'destroying') AND (s.host_id IS NULL OR s.host_id = $1) ORDER BY t.updated_at LIMIT 500",
            &[host.into()],
        )
        .await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// The live ones behind a sandbox.
pub async fn of_sandbox(unit: &mut Unit, sandbox: SandboxId) -> Result<Vec<EnvironmentId>> {
    let rows =
        unit.fetch("SELECT id FROM environments WHERE sandbox_id = $1 AND destroyed_at IS NULL ORDER BY id", &[sandbox.into()]).await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// The same, whole.
pub async fn sharing(unit: &mut Unit, sandbox: SandboxId) -> Result<Vec<Environment>> {
    unit.fetch(SHARING, &[sandbox.into()]).await?.iter().map(read).collect()
}

/// All of a project that are not gone, for the project's own deletion.
pub async fn of_project(unit: &mut Unit, project: ProjectId) -> Result<Vec<EnvironmentId>> {
    let rows =
        unit.fetch("SELECT id FROM environments WHERE project_id = $1 AND destroyed_at IS NULL ORDER BY id", &[project.into()]).await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// Live ones whose project was deleted while they were being made.
pub async fn of_deleted_projects(unit: &mut Unit) -> Result<Vec<EnvironmentId>> {
    let rows = unit
        .fetch(
            "SELECT id FROM environments WHERE deleted_at IS NULL AND destroyed_at IS NULL AND project_id IN (SELECT id FROM projects WHERE deleted_at IS NOT NULL)
             ORDER BY id LIMIT 500",
            &[],
        )
        .await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// The digests of the images that live definitions name.
pub async fn digests_of_images(unit: &mut Unit) -> Result<Vec<String>> {
    let rows = unit.fetch("SELECT spec FROM environments WHERE destroyed_at IS NULL AND spec LIKE '%\"digest\"%'", &[]).await?;
    let mut digests = Vec::new();
    for row in &rows {
        let spec: stead_domain::definition::Spec = row.reader().json()?;
        digests.extend(spec.image().and_then(|(_, digest)| digest.map(str::to_owned)));
    }
    Ok(digests)
}

/// Those of this host whose definitions ask for checkpoints at intervals.
pub async fn with_intervals(unit: &mut Unit, host: HostId) -> Result<Vec<EnvironmentId>> {
    let rows = unit
        .fetch(
            "SELECT e.id FROM environments e JOIN sandboxes s ON s.id = e.sandbox_id
             WHERE e.deleted_at IS NULL AND s.host_id = $1 AND e.spec LIKE '%\"checkpoints\":%\"every\":%'",
            &[host.into()],
        )
        .await?;
    rows.iter().map(|row| row.reader().parsed()).collect()
}

/// The version of the definition whose setup script has run to its end.
pub async fn setup_version(unit: &mut Unit, id: EnvironmentId) -> Result<Option<u64>> {
    let row = unit.fetch_optional("SELECT setup_version FROM environments WHERE id = $1", &[id.into()]).await?;
    row.map_or(Ok(None), |row| row.reader().optional_count())
}

/// Which repositories it may have tokens for.
pub async fn repository_grant(unit: &mut Unit, id: EnvironmentId) -> Result<Option<RepositoryGrant>> {
    let row = unit.fetch_optional("SELECT repository_grant FROM environments WHERE id = $1", &[id.into()]).await?;
    row.map_or(Ok(None), |row| row.reader().optional_json())
}

pub async fn set_repository_grant(unit: &mut Unit, id: EnvironmentId, grant: Option<&RepositoryGrant>) -> Result<()> {
    unit.execute("UPDATE environments SET repository_grant = $2 WHERE id = $1", &[id.into(), optional_json(grant)]).await?;
    Ok(())
}

/// From now on something that it was given may lie in its files.
pub async fn set_contains_secrets(unit: &mut Unit, id: EnvironmentId) -> Result<()> {
    unit.execute("UPDATE environments SET contains_secrets = 1 WHERE id = $1 AND contains_secrets = 0", &[id.into()]).await?;
    Ok(())
}

pub async fn set_setup_version(unit: &mut Unit, id: EnvironmentId, version: Option<u64>) -> Result<()> {
    unit.execute("UPDATE environments SET setup_version = $2 WHERE id = $1", &[id.into(), version.into()]).await?;
    Ok(())
}
