//! From a definition to what its steward needs to know.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stead_app::repositories::pass;
use stead_app::{PlaceError, Premises};
use stead_domain::definition::{MountAccess, NetworkAccess, PackagePolicy, SEARCH_PATH, SandboxMode, Spec, WorkspaceAccess};
use stead_domain::ids::EnvironmentId;
use stead_egress::policy::{Access, PolicyText};
use stead_place::blueprint::{Bind, Blueprint, Image, Limits, Network, PROXY_PORT, Workspace, WorkspaceKind};
use stead_place::{Directories, fence_file};

use super::brokered;
use super::host_paths::HostPaths;
use super::images;
use super::layers::{self, Located};

/// Far above the ids of people, services and other tools' ranges; those of whole systems above those of single users.
const FIRST_USER: u32 = 0x6000_0000;
const FIRST_SYSTEM: u32 = 0x7000_0000;
/// Who everybody is inside.
const USER: &str = "stead";
const IDLE: Duration = Duration::from_secs(300);
/// Programs that run later outside read these: what is planted there would get out.
const PROTECTED: &[&str] = &[".git/hooks", ".git/config"];

/// The directories that a blueprint is made from.
pub struct Site<'a> {
    pub directories: &'a Directories,
    pub skeleton: &'a Path,
    /// Of this sandbox: `runtime`, and `changes`.
    pub sandbox: &'a Path,
    /// Where its files lie: `workspace` in each, and `system` where that is its own.
    pub layers: &'a Located,
    pub host_paths: &'a HostPaths,
    /// Where the relay is found.
    pub relay: &'a Path,
    /// What the operator lets environments reach although it is not public.
    pub reachable: &'a [String],
    /// What git inside asks for credentials; there if this server gives any.
    pub inside: &'a Path,
    /// The root of its own that the definition names, if it does.
    pub image: Option<&'a images::Image>,
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
        let workspace_path = PathBuf::from(spec.workspace_path());
        let runtime_path = PathBuf::from(defaults.runtime_path.unwrap_or_else(|| "/runtime".to_owned()));
        let mounts = mounts(spec, self.host_paths)?;
        // A directory of the host in the workspace's place is the workspace.
        let bound = mounts.iter().find(|bind| bind.path == workspace_path);
        let source = bound.map_or_else(|| self.layers.upper.join("workspace"), |bind| bind.source.clone());
        let below = self.layers.below.iter().filter(|_| bound.is_none()).map(|layer| layer.join("workspace")).collect();
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
        // Nothing is seen of a workspace that is not there.
        let seen = !matches!(access, WorkspaceKind::None);
        let inside = |paths: &[String]| paths.iter().filter(|_| seen).map(|path| workspace_path.join(path)).collect();
        let hidden: Vec<PathBuf> = inside(sandbox.hidden_paths.as_deref().unwrap_or_default());
        let hidden = hidden.into_iter();
        let resources = sandbox.resources.unwrap_or_default();
        let is_system = sandbox.package_policy == Some(PackagePolicy::System);
        let relayed = |access, allowed_hosts: Option<Vec<String>>| Network::Relayed {
            relay: self.relay.to_owned(),
            policy: PolicyText { access, allowed_hosts: allowed_hosts.unwrap_or_default(), reachable: self.reachable.to_vec() },
        };
        let hosts = brokered::hosts(spec);
        let network = match sandbox.network_access.unwrap_or(NetworkAccess::Enabled) {
            NetworkAccess::Disabled => Network::Disabled,
            NetworkAccess::Allowlist => {
                relayed(Access::Allowlist, Some(brokered::with_hosts(sandbox.allowed_hosts.unwrap_or_default(), hosts)))
            }
            NetworkAccess::Enabled => relayed(Access::Enabled, None),
        };
        let trusted = brokered::trusted(premises)?;
        let mut binds = vec![Bind { source: self.sandbox.join("runtime"), path: runtime_path, writable: true }];
        binds.extend(mounts.iter().filter(|bind| bind.path != workspace_path).cloned());
        if asks_for_credentials(spec) && self.inside.is_dir() {
            binds.push(Bind { source: self.inside.to_owned(), path: pass::DIRECTORY.into(), writable: false });
        }
        Ok(Blueprint {
            environment: premises.environment,
            spec_version: premises.spec_version,
            run: self.directories.run(premises.environment),
            logs: self.directories.logs(premises.environment),
            fence: self.sandbox.join(fence_file::NAME),
            skeleton: self.skeleton.to_owned(),
            system: is_system.then(|| self.system(&self.layers.upper)),
            system_below: self.layers.below.iter().filter(|_| is_system).map(|layer| self.system(layer)).collect(),
            image: self.image.map(|image| Image { root: image.root.clone(), locked: image.unpacked }),
            identity: Some(identity(premises.environment, is_system)),
            allow_ptrace: sandbox.allow_ptrace.unwrap_or(false),
            hostname: hostname(&premises.name),
            env: variables(spec, &workspace_path, &network, trusted.is_some(), is_system, self.image.is_some()),
            trusted,
            workspace: Workspace { path: workspace_path.clone(), source, access, below },
            binds,
            protected: inside(&protected),
            // Of the host's system an image shows nothing.
            hidden: hidden.chain(self.host_paths.of_the_system().filter(|_| self.image.is_none())).collect(),
            network,
            limits: Limits {
                cpus: resources.cpus,
                memory_bytes: resources.memory_mb.map(|size| size.saturating_mul(1 << 20)),
                pids: resources.pids,
                disk_bytes: resources.disk_mb.map(|size| size.saturating_mul(1 << 20)),
            },
            counted: self.counted(),
            quota: None,
            idle_milliseconds: spec.idle_timeout.map_or(IDLE.as_millis() as u64, |timeout| timeout.as_millis()),
        })
    }

    /// Everything that is this sandbox's own, or was when it was sealed.
    fn counted(&self) -> Vec<PathBuf> {
        let layers = std::iter::once(&self.layers.upper).chain(&self.layers.below).filter(|layer| layer.as_path() != self.sandbox);
        std::iter::once(self.sandbox.to_owned()).chain(layers.cloned()).collect()
    }

    /// Where what is changed of a system lands. Another image begins anew: a layer is only true of what it was written over.
    fn system(&self, layer: &Path) -> PathBuf {
        let system = layer.join("system");
        match self.image {
            None => system,
            Some(image) => system.join(layers::name_of(image.digest.as_deref())),
        }
    }
}

/// A directory of the host that was given for reading is not written by way of a layer over it either.
pub fn check_writable(premises: &Premises) -> Result<(), PlaceError> {
    match premises.spec.bound_workspace() {
        Some(mount) if mount.access != MountAccess::ReadWrite => Err(PlaceError::InTheWay {
            message: format!("`{}` is mounted read-only, so nothing can be kept in it", mount.source),
            suggestion: "give the mount `access: rw`, or drop the changes".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Whether it has repositories that somebody gives tokens for.
fn asks_for_credentials(spec: &Spec) -> bool {
    spec.repos
        .as_ref()
        .is_some_and(|repos| repos.github_installation_id.is_some() && repos.allowed.as_ref().is_some_and(|allowed| !allowed.is_empty()))
}

fn mounts(spec: &Spec, host_paths: &HostPaths) -> Result<Vec<Bind>, PlaceError> {
    let mounts = spec.mounts.iter().flatten().map(|mount| match mount.source.strip_prefix("host:") {
        Some(source) => {
            let source = host_paths.settle(Path::new(source)).map_err(|message| PlaceError::CannotBeMade {
                message,
                suggestion: "put the directory back, or name another one in the definition".to_owned(),
            })?;
            Ok(Bind { source, path: mount.path.clone().into(), writable: mount.access == MountAccess::ReadWrite })
        }
        None => Err(PlaceError::CannotBeMade {
            message: format!("`{}` cannot be mounted: only directories of the host can", mount.source),
            suggestion: "take the mount out of the definition".to_owned(),
        }),
    });
    mounts.collect()
}

fn variables(spec: &Spec, workspace: &Path, network: &Network, trusts: bool, is_system: bool, is_image: bool) -> Vec<(String, String)> {
    let user = if is_system { "root" } else { USER };
    let home = if is_system { "/root".to_owned() } else { format!("/home/{USER}") };
    let mut variables: Vec<(String, String)> = [
        ("PATH", SEARCH_PATH),
        ("HOME", home.as_str()),
        ("USER", user),
        ("LOGNAME", user),
        // Not every image has the other.
        ("SHELL", if is_image { "/bin/sh" } else { "/bin/bash" }),
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
    if trusts {
        variables.extend(brokered::variables(is_image));
    }
    for (name, value) in spec.env.iter().flatten() {
        variables.retain(|(known, _)| known != name);
        variables.push((name.clone(), value.clone()));
    }
    variables
}

/// The first of the ids of an environment on the host, where root makes it. It follows from the environment's own id, whose last digits are
/// drawn at random: one of some hundred million ids for a place with one user, one of some thirty thousand ranges for a whole system.
fn identity(environment: EnvironmentId, is_system: bool) -> u32 {
    let drawn = u64::from_str_radix(&environment.short(), 16).unwrap_or(0);
    let within = |count: u32| u32::try_from(drawn % u64::from(count)).unwrap_or(0);
    if is_system { FIRST_SYSTEM + within(0x7f00) * 0x1_0000 } else { FIRST_USER + within(0x0fff_0000) }
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
