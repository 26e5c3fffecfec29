//! A provider that does not answer is given up after a while: neither a request nor the reconciler nor the end of the server waits for it
//! for ever. What it does late all the same is found by its label.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stead_domain::definition::Spec;
use stead_domain::ids::{HostId, SandboxId};
use stead_domain::posture::Capabilities;
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::Sandbox;

use crate::place::{Place, PlaceError};
use crate::provider::{AskedBy, Layers, Listed, NewSandbox, Observation, Provider, ProviderError, Resource};

/// How long one call may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The same for a call of a place that is not meant to wait: one that does not answer holds up neither a request nor the server's end.
pub(crate) async fn within<T>(call: impl Future<Output = Result<T, PlaceError>>) -> Result<T, PlaceError> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(outcome) => outcome,
        Err(_) => Err(PlaceError::Failed(format!("the place did not answer within {} seconds", PATIENCE.as_secs()))),
    }
}

pub(crate) struct Patient {
    pub(crate) inner: Arc<dyn Provider>,
    pub(crate) limit: Duration,
}

impl Patient {
    async fn within<T>(&self, call: impl Future<Output = Result<T, ProviderError>>) -> Result<T, ProviderError> {
        match tokio::time::timeout(self.limit, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ProviderError::Unreachable(format!("it did not answer within {} seconds", self.limit.as_secs()))),
        }
    }
}

#[async_trait]
impl Provider for Patient {
    fn name(&self) -> ProviderName {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn settled(&self) {
        let _ = tokio::time::timeout(self.limit, self.inner.settled()).await;
    }

    fn features(&self) -> Vec<String> {
        self.inner.features()
    }

    fn host(&self) -> Option<HostId> {
        self.inner.host()
    }

    fn check_definition(&self, spec: &mut Spec, asked_by: &AskedBy) -> stead_domain::Result<()> {
        self.inner.check_definition(spec, asked_by)
    }

    /// Passed on as it is: waiting for a process may take long. What should not is kept within bounds where it is called.
    fn place(&self) -> Option<&dyn Place> {
        self.inner.place()
    }

    /// Passed on as it is: to wait for the disk may take long.
    fn layers(&self) -> Option<&dyn Layers> {
        self.inner.layers()
    }

    fn is_made_at_once(&self) -> bool {
        self.inner.is_made_at_once()
    }

    async fn create(&self, request: &NewSandbox) -> Result<Resource, ProviderError> {
        self.within(self.inner.create(request)).await
    }

    async fn make_at_once(&self, request: &NewSandbox) -> Result<Resource, ProviderError> {
        self.within(self.inner.make_at_once(request)).await
    }

    async fn secure(&self) -> Result<(), ProviderError> {
        self.within(self.inner.secure()).await
    }

    async fn inspect(&self, sandbox: &Sandbox) -> Result<Observation, ProviderError> {
        self.within(self.inner.inspect(sandbox)).await
    }

    async fn start(&self, sandbox: &Sandbox) -> Result<(), ProviderError> {
        self.within(self.inner.start(sandbox)).await
    }

    async fn stop(&self, sandbox: &Sandbox) -> Result<(), ProviderError> {
        self.within(self.inner.stop(sandbox)).await
    }

    async fn destroy(&self, sandbox: SandboxId, resource_id: Option<&str>) -> Result<(), ProviderError> {
        self.within(self.inner.destroy(sandbox, resource_id)).await
    }

    async fn discard_unused(&self, sandbox: SandboxId) -> Result<bool, ProviderError> {
        self.within(self.inner.discard_unused(sandbox)).await
    }

    async fn list(&self) -> Result<Vec<Listed>, ProviderError> {
        self.within(self.inner.list()).await
    }

    async fn images(&self) -> Result<Vec<String>, ProviderError> {
        self.within(self.inner.images()).await
    }

    async fn remove_image(&self, digest: &str) -> Result<bool, ProviderError> {
        self.within(self.inner.remove_image(digest)).await
    }

    async fn check(&self) -> Result<String, ProviderError> {
        self.within(self.inner.check()).await
    }

    async fn usage(&self) -> Result<Vec<(String, u64)>, ProviderError> {
        self.within(self.inner.usage()).await
    }
}
