//! What the operator and the provider allow of a definition.

use std::path::Path;

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
        for (index, path) in spec.host_paths() {
            self.check_host_path(&format!("spec.mounts[{index}].source"), Path::new(path))?;
        }
        let capabilities = provider.capabilities();
        if !allow_unenforced {
            capabilities.check(spec, provider.name().as_str())?;
        }
        Ok(capabilities.effective(spec))
    }

    /// A host path may be mounted only from a directory that the operator named, and never from where Stead keeps its own files.
    fn check_host_path(&self, field: &str, path: &Path) -> Result<()> {
        // Where the path really leads: a link out of an allowed directory is no way in.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let data_dir = self.settings.data_dir.canonicalize().unwrap_or_else(|_| self.settings.data_dir.clone());
        if real.starts_with(&data_dir) || data_dir.starts_with(&real) {
            return Err(Error::field(field, "lies in the server's data directory or around it, which is never mounted"));
        }
        let allowed = self.settings.allow_host_paths.iter().any(|prefix| {
            let prefix = prefix.canonicalize().unwrap_or_else(|_| prefix.clone());
            real.starts_with(prefix)
        });
        if allowed {
            return Ok(());
        }
        Err(Error::new(Code::Forbidden, format!("`{field}`: the operator has not allowed mounts from `{}`", path.display()))
            .detail("field", field)
            .suggestion("start the server with --allow-host-path and a directory above it"))
    }
}
