//! The built-in definitions.

use super::{
    AtRelease, CheckpointPolicy, LeasePolicy, LeasePolicyKind, MountDefaults, NetworkAccess, PackagePolicy, Root, RootView, SandboxMode,
    SandboxSpec, Spec, UnreachablePolicy, WorkspaceAccess,
};
use crate::duration::Duration;
use crate::environment::TemplateId;
use crate::provider::ProviderName;

/// `local-default` is openboa's: read and write, network enabled, packages in the workspace, no limit. `coding-default` is the same place
/// with what a coding agent needs beside it: checkpoints after each run and before a takeover.
pub fn template(id: TemplateId) -> Spec {
    let local = Spec {
        kind: Some(ProviderName::Local),
        sandbox: Some(SandboxSpec {
            mode: Some(SandboxMode::Workspace),
            workspace_access: Some(WorkspaceAccess::ReadWrite),
            network_access: Some(NetworkAccess::Enabled),
            package_policy: Some(PackagePolicy::Workspace),
            ..SandboxSpec::default()
        }),
        workspace_mount_defaults: Some(MountDefaults {
            workspace_path: Some("/workspace".to_owned()),
            runtime_path: Some("/runtime".to_owned()),
        }),
        lease: Some(LeasePolicy {
            policy: Some(LeasePolicyKind::Exclusive),
            default_ttl: Some(Duration::from_secs(90)),
            max_lifetime: Some(Duration::from_secs(4 * 3600)),
            lock_delay: Some(Duration::from_secs(5)),
            unreachable: Some(UnreachablePolicy::Wait),
            at_release: Some(AtRelease::Keep),
        }),
        root: Some(Root { view: Some(RootView::Host), ..Root::default() }),
        idle_timeout: Some(Duration::from_secs(300)),
        ..Spec::default()
    };
    match id {
        TemplateId::LocalDefault => local,
        TemplateId::CodingDefault => Spec {
            checkpoints: Some(CheckpointPolicy { before_takeover: Some(true), after_run: Some(true), every: None, keep: Some(10) }),
            ..local
        },
    }
}
