//! What the operator and the provider allow of a definition.

use stead_domain::definition::{SandboxMode, Spec};
use stead_domain::posture::EffectiveField;
use stead_domain::{Code, Error, Result};

use crate::App;
use crate::provider::Provider;

impl App {
    /// Checks a whole definition against the provider's capabilities and the operator's settings, and gives the effective posture.
    pub(crate) fn check_posture(&self, spec: &Spec, provider: &dyn Provider, allow_unenforced: bool) -> Result<Vec<EffectiveField>> {
        if spec.sandbox_mode() == SandboxMode::Off && !self.settings.allow_unsandboxed {
            return Err(Error::new(
                Code::PostureNotEnforced,
                "`spec.sandbox.mode`: `off` runs unsandboxed, which the operator has not allowed",
            )
            .detail("field", "spec.sandbox.mode")
            .suggestion("leave it at `workspace`, or start the server with --allow-unsandboxed"));
        }
        provider.check_definition(spec)?;
        let capabilities = provider.capabilities();
        if !allow_unenforced {
            capabilities.check(spec, provider.name().as_str())?;
        }
        Ok(capabilities.effective(spec))
    }
}
