//! What the operator and the provider allow of a definition.

use std::sync::Arc;

use stead_domain::definition::{SandboxMode, Spec};
use stead_domain::posture::{EffectiveField, Enforcement};
use stead_domain::provider::ProviderName;
use stead_domain::{Code, Error, Result};

use crate::{App, AskedBy};

impl App {
    /// Checks a whole definition against the provider's capabilities and the operator's settings, and gives the effective posture. What
    /// the provider fills in of it is filled in. It may look at files, so it is never called inside a unit of work.
    pub(crate) async fn check_posture(
        &self,
        spec: &mut Spec,
        provider: ProviderName,
        allow_unenforced: bool,
        asked_by: AskedBy,
    ) -> Result<Vec<EffectiveField>> {
        let off = spec.sandbox_mode() == SandboxMode::Off;
        if off && !self.settings.allow_unsandboxed {
            return Err(Error::new(
                Code::PostureNotEnforced,
                "`spec.sandbox.mode`: `off` runs unsandboxed, which the operator has not allowed",
            )
            .detail("field", "spec.sandbox.mode")
            .suggestion("leave it at `workspace`, or start the server with --allow-unsandboxed"));
        }
        let provider = Arc::clone(self.providers.serving(provider)?);
        let (asked, checked) = (Arc::clone(&provider), spec.clone());
        let check = move || {
            let mut checked = checked;
            asked.check_definition(&mut checked, &asked_by).map(|()| checked)
        };
        *spec = tokio::task::spawn_blocking(check).await.map_err(Error::internal)??;
        provider.settled().await;
        let capabilities = provider.capabilities();
        if off && capabilities.level("sandbox.mode", "off") != Enforcement::Enforced {
            // Not even for those who accept what is not enforced: it would run in a sandbox, and say that it does not.
            return Err(Error::new(
                Code::PostureNotEnforced,
                format!("`spec.sandbox.mode`: provider `{}` runs nothing unsandboxed", provider.name()),
            )
            .detail("field", "spec.sandbox.mode")
            .suggestion("leave it at `workspace`"));
        }
        if !allow_unenforced {
            capabilities.check(spec, provider.name().as_str())?;
        }
        Ok(capabilities.effective(spec))
    }
}
