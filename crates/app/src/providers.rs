//! The providers that this server has, under the names that callers use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stead_domain::provider::{ProviderCheck, ProviderName, ProviderView};
use stead_domain::{Code, Error, Result};

use crate::App;
use crate::patience::{PATIENCE, Patient};
use crate::provider::Provider;

fn needs(name: ProviderName) -> &'static str {
    name.needs().unwrap_or("a worker that attaches it (`stead worker --attach DIR`)")
}

#[derive(Default)]
pub struct Providers {
    configured: BTreeMap<ProviderName, Arc<dyn Provider>>,
    aliases: BTreeMap<ProviderName, ProviderName>,
}

impl Providers {
    #[must_use]
    pub fn with(self, provider: Arc<dyn Provider>) -> Self {
        self.with_patience(provider, PATIENCE)
    }

    /// The same for one that must answer sooner, or may answer later, than others.
    #[must_use]
    pub fn with_patience(mut self, inner: Arc<dyn Provider>, limit: Duration) -> Self {
        self.configured.insert(inner.name(), Arc::new(Patient { inner, limit }));
        self
    }

    /// Serves one name by another provider. The record keeps the name; `runtime.provider` tells the truth.
    pub fn alias(&mut self, name: ProviderName, served_by: ProviderName) -> Result<()> {
        if !self.configured.contains_key(&served_by) {
            return Err(Error::new(
                Code::ProviderNotConfigured,
                format!("`{name}` cannot be served by `{served_by}`, which is not configured"),
            ));
        }
        self.aliases.insert(name, served_by);
        Ok(())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.configured.values()
    }

    /// The provider that really serves a name.
    pub(crate) fn serving(&self, name: ProviderName) -> Result<&Arc<dyn Provider>> {
        let served_by = self.aliases.get(&name).copied().unwrap_or(name);
        self.configured.get(&served_by).ok_or_else(|| {
            let needs = needs(name);
            Error::new(Code::ProviderNotConfigured, format!("provider `{name}` is not configured on this server: it needs {needs}"))
                .detail("provider", name.as_str())
                .detail("needs", needs)
                .suggestion("set that and try again, or use provider `local`; `stead provider list` shows what is configured")
        })
    }

    fn view(&self, name: ProviderName) -> ProviderView {
        let serving = self.serving(name).ok();
        ProviderView {
            name,
            configured: serving.is_some(),
            served_by: self.aliases.get(&name).copied(),
            missing: if serving.is_some() { None } else { Some(needs(name).to_owned()) },
            capabilities: serving.map(|provider| provider.capabilities()),
        }
    }
}

impl App {
    /// Every provider that Stead knows, configured or not.
    pub async fn list_providers(&self) -> Vec<ProviderView> {
        for provider in self.providers.all() {
            provider.settled().await;
        }
        ProviderName::ALL.iter().map(|name| self.providers.view(*name)).collect()
    }

    /// Asks a provider whether it can be used now.
    pub async fn check_provider(&self, name: &str) -> Result<ProviderCheck> {
        let name: ProviderName = name.parse().map_err(|_| Error::not_found("provider", name.chars().take(64).collect::<String>()))?;
        Ok(match self.providers.serving(name) {
            Ok(provider) => match provider.check().await {
                Ok(message) => ProviderCheck { name, ok: true, message },
                Err(error) => ProviderCheck { name, ok: false, message: error.to_string() },
            },
            Err(error) => ProviderCheck { name, ok: false, message: error.message().to_owned() },
        })
    }
}
