//! Secrets of the client's project: set, listed and deleted, and never read.

use stead_domain::page::Page;
use stead_domain::secret::{KeyRotation, NewSecretValue, Secret, SecretHistory, SecretSet};

use crate::request::escape;
use crate::{Client, ListOptions, Request, Result};

impl Client {
    pub async fn list_secrets(&self, options: &ListOptions) -> Result<Page<Secret>> {
        self.json(options.apply(Request::get(self.project_path("/secrets")))).await
    }

    pub async fn get_secret(&self, name: &str) -> Result<Secret> {
        self.json(Request::get(self.project_path(&format!("/secrets/{}", escape(name))))).await
    }

    pub async fn secret_history(&self, name: &str) -> Result<SecretHistory> {
        self.json(Request::get(self.project_path(&format!("/secrets/{}/versions", escape(name))))).await
    }

    pub async fn set_secret(&self, name: &str, value: &NewSecretValue) -> Result<SecretSet> {
        self.json(Request::put(self.project_path(&format!("/secrets/{}", escape(name)))).json(value)?).await
    }

    pub async fn delete_secret(&self, name: &str) -> Result<()> {
        self.request(Request::delete(self.project_path(&format!("/secrets/{}", escape(name))))).await.map(drop)
    }

    pub async fn rotate_master_key(&self) -> Result<KeyRotation> {
        self.json(Request::post("/v1/system/rotate-key".to_owned())).await
    }
}
