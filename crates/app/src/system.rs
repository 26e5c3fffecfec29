//! What an operator asks of the server itself: who it is, what it holds, what may go.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use stead_domain::ids::{HostId, PrincipalId, ProjectId};
use stead_domain::principal::{Caller, Credential, PrincipalKind};
use stead_domain::{Error, Result};
use stead_store::maintenance::{self, Horizon};
use stead_store::{principals, projects};
use utoipa::ToSchema;

use crate::App;
use crate::audit::{self, Act};

/// Who the caller is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Identity {
    pub principal_id: PrincipalId,
    pub name: String,
    pub kind: PrincipalKind,
    pub operator: bool,
    /// The project that the key is for; absent when it reaches every project of its principal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// Something that takes up space.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UsageItem {
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Something that was, or would be, removed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PrunedItem {
    pub what: String,
    pub count: u64,
    /// Whether it may hold somebody's work that is nowhere else; `stead prune` asks before that goes.
    pub irreplaceable: bool,
}

impl App {
    pub fn host(&self) -> HostId {
        self.host
    }

    pub fn store_kind(&self) -> &'static str {
        self.store.dialect().as_str()
    }

    /// Whether the store answers.
    pub async fn is_ready(&self) -> Result<()> {
        Ok(self.store.ping().await?)
    }

    pub async fn identity(&self, caller: &Caller) -> Result<Identity> {
        let caller = caller.clone();
        self.store
            .read(move |unit| {
                Box::pin(async move {
                    let principal =
                        principals::find(unit, caller.principal).await?.ok_or_else(|| Error::internal("the caller has no principal"))?;
                    let project = match caller.credential {
                        Credential::Key { project: Some(id), .. } => projects::find(unit, id).await?.map(|project| project.handle),
                        _ => None,
                    };
                    Ok(Identity {
                        principal_id: principal.id,
                        name: principal.name,
                        kind: principal.kind,
                        operator: caller.operator,
                        project,
                    })
                })
            })
            .await
    }

    pub async fn usage(&self) -> Result<Vec<UsageItem>> {
        let counts = self.store.read(|unit| Box::pin(async move { Ok::<_, Error>(maintenance::counts(unit).await?) })).await?;
        let mut items: Vec<UsageItem> =
            counts.into_iter().map(|(what, count)| UsageItem { what: what.to_owned(), count: Some(count), bytes: None }).collect();
        for provider in self.providers.all() {
            for (what, bytes) in provider.usage().await? {
                items.push(UsageItem { what, count: None, bytes: Some(bytes) });
            }
            if let Some(place) = provider.place() {
                let stored = place.stored_output().await?;
                let bytes = stored.iter().map(|(.., size)| size).sum();
                items.push(UsageItem { what: "process output".to_owned(), count: Some(stored.len() as u64), bytes: Some(bytes) });
            }
        }
        Ok(items)
    }

    /// Removes what is older than it has to be kept, or only says what that would be. Each project keeps a record of what went from it.
    pub async fn prune(&self, caller: &Caller, dry_run: bool) -> Result<Vec<PrunedItem>> {
        let processes = if dry_run { self.count_old_processes().await? } else { self.forget_old_processes().await? };
        let now = self.context.now();
        let retention = self.settings.retention;
        let horizon = Horizon { audit: now.minus(retention.audit), tombstones: now.minus(retention.tombstones), now };
        let (context, caller) = (self.context.clone(), caller.clone());
        let counts = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    if dry_run {
                        return Ok::<_, Error>(maintenance::prunable(unit, horizon).await?);
                    }
                    let by_project = maintenance::prunable_by_project(unit, horizon).await?;
                    let counts = maintenance::prune(unit, horizon).await?;
                    // Written after the rest has gone, or they would go with it where nothing is kept.
                    let mut told: BTreeMap<ProjectId, Vec<(&str, Value)>> = BTreeMap::new();
                    for (project, what, count) in by_project {
                        told.entry(project).or_default().push((what, count.into()));
                    }
                    for (project, details) in told {
                        let act = Act { project, action: "system.prune", target_type: "project", target_id: project.to_string(), details };
                        audit::record(unit, &context, &caller, act).await?;
                    }
                    Ok(counts)
                })
            })
            .await?;
        let item = |what: &str, count, irreplaceable| PrunedItem { what: what.to_owned(), count, irreplaceable };
        let mut items: Vec<PrunedItem> = counts.into_iter().map(|(what, count)| item(what, count, false)).collect();
        items.push(item("processes", processes, false));
        items.push(item("images that no environment names", self.unnamed_images(!dry_run).await?, false));
        let left = self.unknown_since_restore(!dry_run).await?;
        items.push(item("workspaces that a restore left without a record", left, true));
        Ok(items)
    }
}
