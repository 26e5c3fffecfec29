//! API keys of the client's project.

use serde::Serialize;
use stead_domain::Timestamp;
use stead_domain::api_key::{ApiKey, ApiKeyWithSecret};
use stead_domain::ids::{ApiKeyId, PrincipalId};
use stead_domain::page::Page;
use stead_domain::tags::Tags;

use crate::{Client, ListOptions, Request, Result};

#[derive(Clone, Debug, Serialize)]
pub struct NewApiKey {
    pub name: String,
    pub principal_id: PrincipalId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

impl Client {
    pub async fn list_api_keys(&self, options: &ListOptions) -> Result<Page<ApiKey>> {
        self.json(options.apply(Request::get(self.project_path("/api-keys")))).await
    }

    pub async fn create_api_key(&self, key: &NewApiKey) -> Result<ApiKeyWithSecret> {
        self.json(Request::post(self.project_path("/api-keys")).json(key)?).await
    }

    pub async fn get_api_key(&self, id: ApiKeyId) -> Result<ApiKey> {
        self.json(Request::get(self.project_path(&format!("/api-keys/{id}")))).await
    }

    pub async fn revoke_api_key(&self, id: ApiKeyId) -> Result<()> {
        self.request(Request::delete(self.project_path(&format!("/api-keys/{id}")))).await.map(drop)
    }
}
