//! Providers as the client's project sees them.

use serde::{Deserialize, Serialize};
use stead_domain::provider::{ProviderCheck, ProviderName, ProviderView};

use crate::{Client, Request, Result};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProviderList {
    pub items: Vec<ProviderView>,
}

impl Client {
    pub async fn list_providers(&self) -> Result<ProviderList> {
        self.json(Request::get(self.project_path("/providers"))).await
    }

    pub async fn check_provider(&self, name: ProviderName) -> Result<ProviderCheck> {
        self.json(Request::post(self.project_path(&format!("/providers/{name}/check")))).await
    }
}
