//! openboa's definition files, read as they are: camel case, `local` only, and no field that Stead does not have under another name.

use serde::Deserialize;

use super::{MountDefaults, NetworkAccess, PackagePolicy, SandboxMode, SandboxSpec, Spec, WorkspaceAccess};
use crate::provider::ProviderName;
use crate::time::Timestamp;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OpenboaDefinition {
    id: Option<String>,
    name: Option<String>,
    kind: Option<ProviderName>,
    sandbox: Option<OpenboaSandbox>,
    workspace_mount_defaults: Option<OpenboaMounts>,
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenboaSandbox {
    mode: Option<SandboxMode>,
    workspace_access: Option<WorkspaceAccess>,
    network_access: Option<NetworkAccess>,
    package_policy: Option<PackagePolicy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenboaMounts {
    workspace_path: Option<String>,
    runtime_path: Option<String>,
}

impl From<OpenboaDefinition> for Spec {
    fn from(file: OpenboaDefinition) -> Self {
        Self {
            id: file.id,
            name: file.name,
            kind: file.kind,
            sandbox: file.sandbox.map(|sandbox| SandboxSpec {
                mode: sandbox.mode,
                workspace_access: sandbox.workspace_access,
                network_access: sandbox.network_access,
                package_policy: sandbox.package_policy,
                ..SandboxSpec::default()
            }),
            workspace_mount_defaults: file
                .workspace_mount_defaults
                .map(|mounts| MountDefaults { workspace_path: mounts.workspace_path, runtime_path: mounts.runtime_path }),
            created_at: file.created_at,
            updated_at: file.updated_at,
            ..Self::default()
        }
    }
}
