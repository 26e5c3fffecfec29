//! What the operator and the provider allow of a definition.

use std::sync::Arc;

use stead_domain::definition::{SandboxMode, Spec};
use stead_domain::posture::EffectiveField;
use stead_domain::provider::ProviderName;
use stead_domain::{Code, Error, Result};

use crate::{App, AskedBy};

impl App {
    /// Checks a whole definition against the provider's capabilities and the operator's settings, and gives the effective posture. It may
    /// look at files, so it is never called inside a unit of work.
    pub(crate) async fn check_posture(
        &self,
        spec: &Spec,
        provider: ProviderName,
        allow_unenforced: bool,
        asked_by: AskedBy,
    ) -> Result<Vec<EffectiveField>> {
        if spec.sandbox_mode() == SandboxMode::Off && !self.settings.allow_unsandboxed {
            return Err(Error::new(
                Code::PostureNotEnforced,
                "`spec.sandbox.mode`: `off` runs unsandboxed, which the operator has not allowed",
            )
            .detail("field", "spec.sandbox.mode")
            .suggestion("leave it at `workspace`, or start the server with --allow-unsandboxed"));
        }
        let provider = Arc::clone(self.providers.serving(provider)?);
        let (asked, checked) = (Arc::clone(&provider), spec.clone());
        tokio::task::spawn_blocking(move || asked.check_definition(&checked, &asked_by)).await.map_err(Error::internal)??;
        let capabilities = provider.capabilities();
        if !allow_unenforced {
            capabilities.check(spec, provider.name().as_str())?;
        }
        Ok(capabilities.effective(spec))
    }
}
