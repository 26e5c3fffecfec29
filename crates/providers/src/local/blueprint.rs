//! From a definition to what its steward needs to know.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stead_app::{PlaceError, Premises};
use stead_domain::definition::{MountAccess, NetworkAccess, SEARCH_PATH, SandboxMode, Spec, WorkspaceAccess};
use stead_egress::policy::{Access, PolicyText};
use stead_place::Directories;
use stead_place::blueprint::{Bind, Blueprint, Limits, Network, PROXY_PORT, Workspace, WorkspaceKind};

/// Who everybody is inside.
const USER: &str = "stead";
const IDLE: Duration = Duration::from_secs(300);
/// Programs that run later outside read these: what is planted there would get out.
const PROTECTED: &[&str] = &[".git/hooks", ".git/config"];

/// The directories that a blueprint is made from.
pub struct Site<'a> {
    pub directories: &'a Directories,
    pub skeleton: &'a Path,
    /// Of this sandbox: `workspace` and `runtime`.
    pub sandbox: &'a Path,
    /// Where the relay is found.
    pub relay: &'a Path,
    /// What the operator lets environments reach although it is not public.
    pub reachable: &'a [String],
}

impl Site<'_> {
    pub fn blueprint(&self, premises: &Premises) -> Result<Blueprint, PlaceError> {
        let spec = &premises.spec;
        if spec.sandbox_mode() == SandboxMode::Off {
            return Err(PlaceError::CannotBeMade {
                message: "`sandbox.mode` is `off`, and nothing runs unsandboxed here".to_owned(),
                suggestion: "set it to `workspace`".to_owned(),
            });
        }
        let sandbox = spec.sandbox.clone().unwrap_or_default();
        let defaults = spec.workspace_mount_defaults.clone().unwrap_or_default();
        let workspace_path = PathBuf::from(defaults.workspace_path.unwrap_or_else(|| "/workspace".to_owned()));
        let runtime_path = PathBuf::from(defaults.runtime_path.unwrap_or_else(|| "/runtime".to_owned()));
        let mounts = mounts(spec)?;
        // A directory of the host in the workspace's place is the workspace.
        let bound = mounts.iter().find(|bind| bind.path == workspace_path);
        let source = bound.map_or_else(|| self.sandbox.join("workspace"), |bind| bind.source.clone());
        let access = match sandbox.workspace_access.unwrap_or(WorkspaceAccess::ReadWrite) {
            WorkspaceAccess::None => WorkspaceKind::None,
            WorkspaceAccess::ReadOnly => WorkspaceKind::ReadOnly,
            WorkspaceAccess::ReadWrite if bound.is_some_and(|bind| !bind.writable) => WorkspaceKind::ReadOnly,
            WorkspaceAccess::ReadWrite => WorkspaceKind::ReadWrite,
            WorkspaceAccess::CopyOnWrite => WorkspaceKind::CopyOnWrite { layer: self.sandbox.join("changes") },
        };
        let protected = match &sandbox.protected_paths {
            Some(paths) => paths.clone(),
            None if bound.is_some() => PROTECTED.iter().map(|path| (*path).to_owned()).collect(),
            None => Vec::new(),
        };
        let inside = |paths: &[String]| paths.iter().map(|path| workspace_path.join(path)).collect();
        let resources = sandbox.resources.unwrap_or_default();
        let relayed = |access, allowed_hosts: Option<Vec<String>>| Network::Relayed {
            relay: self.relay.to_owned(),
            policy: PolicyText { access, allowed_hosts: allowed_hosts.unwrap_or_default(), reachable: self.reachable.to_vec() },
        };
        let network = match sandbox.network_access.unwrap_or(NetworkAccess::Enabled) {
            NetworkAccess::Disabled => Network::Disabled,
            NetworkAccess::Allowlist => relayed(Access::Allowlist, sandbox.allowed_hosts),
            NetworkAccess::Enabled => relayed(Access::Enabled, None),
        };
        let mut binds = vec![Bind { source: self.sandbox.join("runtime"), path: runtime_path, writable: true }];
        binds.extend(mounts.iter().filter(|bind| bind.path != workspace_path).cloned());
        Ok(Blueprint {
            environment: premises.environment,
            spec_version: premises.spec_version,
            run: self.directories.run(premises.environment),
            logs: self.directories.logs(premises.environment),
            skeleton: self.skeleton.to_owned(),
            hostname: hostname(&premises.name),
            env: variables(spec, &workspace_path, &network),
            workspace: Workspace { path: workspace_path.clone(), source, access },
            binds,
            protected: inside(&protected),
            hidden: inside(sandbox.hidden_paths.as_deref().unwrap_or_default()),
            network,
            limits: Limits {
                cpus: resources.cpus,
                memory_bytes: resources.memory_mb.map(|size| size.saturating_mul(1 << 20)),
                pids: resources.pids,
                disk_bytes: resources.disk_mb.map(|size| size.saturating_mul(1 << 20)),
            },
            idle_milliseconds: spec.idle_timeout.map_or(IDLE.as_millis() as u64, |timeout| timeout.as_millis()),
        })
    }
}

/// A directory of the host that was given for reading is not written by way of a layer over it either.
pub fn check_writable(premises: &Premises) -> Result<(), PlaceError> {
    let defaults = premises.spec.workspace_mount_defaults.clone().unwrap_or_default();
    let path = defaults.workspace_path.unwrap_or_else(|| "/workspace".to_owned());
    match premises.spec.mounts.iter().flatten().find(|mount| mount.path == path) {
        Some(mount) if mount.access != MountAccess::ReadWrite => Err(PlaceError::InTheWay {
            message: format!("`{}` is mounted read-only, so nothing can be kept in it", mount.source),
            suggestion: "give the mount `access: rw`, or drop the changes".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn mounts(spec: &Spec) -> Result<Vec<Bind>, PlaceError> {
    let mounts = spec.mounts.iter().flatten().map(|mount| match mount.source.strip_prefix("host:") {
        Some(source) => {
            Ok(Bind { source: source.into(), path: mount.path.clone().into(), writable: mount.access == MountAccess::ReadWrite })
        }
        None => Err(PlaceError::CannotBeMade {
            message: format!("`{}` cannot be mounted: only directories of the host can", mount.source),
            suggestion: "take the mount out of the definition".to_owned(),
        }),
    });
    mounts.collect()
}

fn variables(spec: &Spec, workspace: &Path, network: &Network) -> Vec<(String, String)> {
    let home = format!("/home/{USER}");
    let mut variables: Vec<(String, String)> = [
        ("PATH", SEARCH_PATH),
        ("HOME", home.as_str()),
        ("USER", USER),
        ("LOGNAME", USER),
        ("SHELL", "/bin/bash"),
        ("LANG", "C.UTF-8"),
        ("STEAD_WORKSPACE", &workspace.display().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    // Programs that ask for a proxy find one; those that do not are covered all the same.
    if matches!(network, Network::Relayed { policy, .. } if policy.access == Access::Allowlist) {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            variables.push((name.to_owned(), proxy.clone()));
        }
        for name in ["NO_PROXY", "no_proxy"] {
            variables.push((name.to_owned(), "localhost,127.0.0.1,::1".to_owned()));
        }
    }
    for (name, value) in spec.env.iter().flatten() {
        variables.retain(|(known, _)| known != name);
        variables.push((name.clone(), value.clone()));
    }
    variables
}

/// What a host may be called: letters, digits and dashes.
fn hostname(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).take(63).collect();
    let plain = plain.trim_matches('-');
    if plain.is_empty() { "stead".to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames_are_made_of_what_hosts_are_called() {
        for (name, expected) in [("Web.One", "web-one"), ("--", "stead"), ("", "stead"), ("a_b", "a-b")] {
            assert_eq!(hostname(name), expected);
        }
        assert_eq!(hostname(&"x".repeat(100)).len(), 63);
    }
}
