//! Environments of the client's project.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_domain::environment::{
    Change, DefinitionVersion, Environment, EnvironmentMode, EnvironmentStatus, Lifetime, Purpose, ScopeFilter,
};
use stead_domain::ids::EnvironmentId;
use stead_domain::page::Page;
use stead_domain::posture::EffectiveField;
use stead_domain::process::EnvironmentActivity;
use stead_domain::process_request::SleepRequest;
use stead_domain::provider::ProviderName;

use crate::{Client, ListOptions, Request, Result};

#[derive(Clone, Debug, Default)]
pub struct EnvironmentFilter {
    /// Exactly this name, whatever its case.
    pub name: Option<String>,
    /// An id or a name that begins with this.
    pub reference: Option<String>,
    pub provider: Option<ProviderName>,
    pub status: Option<EnvironmentStatus>,
    pub lifetime: Option<Lifetime>,
    pub environment_mode: Option<EnvironmentMode>,
    pub purpose: Option<Purpose>,
    /// Without one, only those without a scope.
    pub scope: Option<ScopeFilter>,
    pub owned_by: Option<String>,
    pub include_destroyed: bool,
}

/// A record and the version of it that was read, to edit exactly that one.
#[derive(Clone, Debug)]
pub struct Tagged<T> {
    pub value: T,
    pub etag: Option<String>,
}

/// What differs between two versions of a definition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VersionDifference {
    pub from: u64,
    pub to: u64,
    pub changes: Vec<Change>,
}

/// What a definition declares, beside how far the provider enforces it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Posture {
    pub environment_id: EnvironmentId,
    pub spec_version: u64,
    pub provider: ProviderName,
    pub allow_unenforced: bool,
    pub fields: Vec<EffectiveField>,
}

impl Client {
    pub async fn list_environments(&self, filter: &EnvironmentFilter, options: &ListOptions) -> Result<Page<Environment>> {
        let request = Request::get(self.project_path("/environments"))
            .query("name", filter.name.as_deref())
            .query("reference", filter.reference.as_deref())
            .query("provider", filter.provider)
            .query("status", filter.status)
            .query("lifetime", filter.lifetime)
            .query("environment_mode", filter.environment_mode)
            .query("purpose", filter.purpose)
            .query("scope", filter.scope)
            .query("owned_by", filter.owned_by.as_deref())
            .query("include_destroyed", filter.include_destroyed.then_some(true));
        self.json(options.apply(request)).await
    }

    pub async fn create_environment(&self, body: &Value) -> Result<Environment> {
        self.json(Request::post(self.project_path("/environments")).json(body)?).await
    }

    pub async fn get_environment(&self, id: EnvironmentId) -> Result<Tagged<Environment>> {
        let response = self.request(Request::get(self.environment_path(id, ""))).await?;
        Ok(Tagged { value: self.parse(&response)?, etag: response.header("etag").map(str::to_owned) })
    }

    /// Edits a record; with an `etag`, only if it is still that version.
    pub async fn update_environment(&self, id: EnvironmentId, body: &Value, etag: Option<&str>) -> Result<Environment> {
        let mut request = Request::patch(self.environment_path(id, "")).json(body)?;
        if let Some(etag) = etag {
            request = request.header("if-match", etag)?;
        }
        self.json(request).await
    }

    pub async fn delete_environment(&self, id: EnvironmentId) -> Result<Environment> {
        self.json(Request::delete(self.environment_path(id, ""))).await
    }

    pub async fn reconcile_environment(&self, id: EnvironmentId) -> Result<Environment> {
        self.json(Request::post(self.environment_path(id, "/reconcile"))).await
    }

    /// Makes it ready for a command without one.
    pub async fn wake_environment(&self, id: EnvironmentId) -> Result<Environment> {
        self.json(Request::post(self.environment_path(id, "/wake"))).await
    }

    /// Leaves neither process nor mount of it; what runs inside is ended only with `force`.
    pub async fn sleep_environment(&self, id: EnvironmentId, force: bool) -> Result<Environment> {
        self.json(Request::post(self.environment_path(id, "/sleep")).json(&SleepRequest { force })?).await
    }

    /// Ends everything inside, and then it sleeps.
    pub async fn stop_environment(&self, id: EnvironmentId) -> Result<Environment> {
        self.json(Request::post(self.environment_path(id, "/stop"))).await
    }

    /// What it does now; it does not wake for this.
    pub async fn get_activity(&self, id: EnvironmentId) -> Result<EnvironmentActivity> {
        self.json(Request::get(self.environment_path(id, "/activity"))).await
    }

    pub async fn get_posture(&self, id: EnvironmentId) -> Result<Posture> {
        self.json(Request::get(self.environment_path(id, "/posture"))).await
    }

    pub async fn list_versions(&self, id: EnvironmentId, options: &ListOptions) -> Result<Page<DefinitionVersion>> {
        self.json(options.apply(Request::get(self.environment_path(id, "/versions")))).await
    }

    pub async fn get_version(&self, id: EnvironmentId, version: u64) -> Result<DefinitionVersion> {
        self.json(Request::get(self.environment_path(id, &format!("/versions/{version}")))).await
    }

    pub async fn diff_versions(&self, id: EnvironmentId, from: u64, to: u64) -> Result<VersionDifference> {
        self.json(Request::get(self.environment_path(id, "/versions/diff")).query("from", Some(from)).query("to", Some(to))).await
    }

    pub async fn roll_back(&self, id: EnvironmentId, version: u64) -> Result<Environment> {
        self.json(Request::post(self.environment_path(id, &format!("/versions/{version}/rollback")))).await
    }

    pub(crate) fn environment_path(&self, id: EnvironmentId, rest: &str) -> String {
        self.project_path(&format!("/environments/{id}{rest}"))
    }
}
