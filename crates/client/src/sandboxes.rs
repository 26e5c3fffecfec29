//! Sandboxes of the client's project.

use serde_json::{Map, Value};
use stead_domain::ids::SandboxId;
use stead_domain::page::Page;
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::Sandbox;

use crate::{Client, ListOptions, Request, Result};

impl Client {
    pub async fn list_sandboxes(&self, options: &ListOptions) -> Result<Page<Sandbox>> {
        self.json(options.apply(Request::get(self.project_path("/sandboxes")))).await
    }

    pub async fn create_sandbox(&self, provider: Option<ProviderName>) -> Result<Sandbox> {
        let body: Map<String, Value> = provider.into_iter().map(|name| ("provider".to_owned(), Value::from(name.as_str()))).collect();
        self.json(Request::post(self.project_path("/sandboxes")).json(&body)?).await
    }

    pub async fn get_sandbox(&self, id: SandboxId) -> Result<Sandbox> {
        self.json(Request::get(self.project_path(&format!("/sandboxes/{id}")))).await
    }

    pub async fn delete_sandbox(&self, id: SandboxId) -> Result<Sandbox> {
        self.json(Request::delete(self.project_path(&format!("/sandboxes/{id}")))).await
    }
}
