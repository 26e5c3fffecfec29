//! The definition: what a place must be. Every field is optional in an API `spec`; what is absent takes the template's value.

mod file;
mod fingerprint;
mod merge;
mod openboa;
mod secret_bindings;
mod templates;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub use file::DefinitionFile;
pub use merge::merge_patch;
pub use secret_bindings::{Inject, InjectScheme, SecretBinding};
pub use templates::template;

use crate::duration::Duration;
use crate::error::{Code, Error, Result, parse_value};
use crate::provider::ProviderName;
use crate::time::Timestamp;

/// Where programs are looked for inside, unless `env` says otherwise.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

text_enum! {
    pub enum SandboxMode {
        Workspace = "workspace",
        Off = "off",
    }
}

text_enum! {
    pub enum WorkspaceAccess {
        None = "none",
        ReadOnly = "ro",
        ReadWrite = "rw",
        CopyOnWrite = "cow",
    }
}

text_enum! {
    pub enum NetworkAccess {
        Disabled = "disabled",
        Allowlist = "allowlist",
        Enabled = "enabled",
    }
}

text_enum! {
    pub enum PackagePolicy {
        None = "none",
        Workspace = "workspace",
        System = "system",
    }
}

text_enum! {
    pub enum MountAccess {
        ReadOnly = "ro",
        ReadWrite = "rw",
    }
}

text_enum! {
    pub enum SecretDelivery {
        Env = "env",
        File = "file",
        Broker = "broker",
    }
}

text_enum! {
    pub enum LeasePolicyKind {
        Exclusive = "exclusive",
        Open = "open",
    }
}

text_enum! {
    pub enum UnreachablePolicy {
        Wait = "wait",
        ForkFromCheckpoint = "fork_from_checkpoint",
        Destroy = "destroy",
    }
}

text_enum! {
    pub enum AtRelease {
        Keep = "keep",
        Checkpoint = "checkpoint",
        Clean = "clean",
        Destroy = "destroy",
    }
}

text_enum! {
    pub enum RootView {
        Host = "host",
        Image = "image",
    }
}

text_enum! {
    pub enum ArtifactCondition {
        Always = "always",
        Success = "success",
        Failure = "failure",
    }
}

/// Makes a struct of optional fields that refuses unknown ones and leaves out what is absent.
macro_rules! record {
    ($(#[$documentation:meta])* pub struct $name:ident { $($(#[$note:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$documentation])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$note])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
        }
    };
}

record! {
    /// A definition, whole or in part.
    pub struct Spec {
        /// Only in files: the definition's id, which is the environment's name.
        pub id: String,
        /// A name for people; the record's own name is what things are found by.
        pub name: String,
        /// The provider, under openboa's name for it.
        pub kind: ProviderName,
        /// The same as `kind`.
        pub provider: ProviderName,
        pub sandbox: SandboxSpec,
        pub workspace_mount_defaults: MountDefaults,
        pub mounts: Vec<Mount>,
        pub repos: Repos,
        pub secret_bindings: Vec<SecretBinding>,
        pub lease: LeasePolicy,
        /// Variables of every process.
        pub env: BTreeMap<String, String>,
        pub root: Root,
        pub ports: Vec<Port>,
        pub idle_timeout: Duration,
        pub checkpoints: CheckpointPolicy,
        pub artifacts: Vec<ArtifactRule>,
        /// Providers in order of preference.
        pub providers: Vec<ProviderName>,
        pub setup: Setup,
        /// Only in files.
        pub created_at: Timestamp,
        /// Only in files.
        pub updated_at: Timestamp,
    }
}

record! {
    pub struct SandboxSpec {
        pub mode: SandboxMode,
        pub workspace_access: WorkspaceAccess,
        pub network_access: NetworkAccess,
        /// `host`, `host:port` or `*.suffix[:port]`; used with `network_access: allowlist`.
        pub allowed_hosts: Vec<String>,
        pub package_policy: PackagePolicy,
        pub resources: Resources,
        /// Paths in the workspace that stay read-only, so that nothing planted there runs later outside.
        pub protected_paths: Vec<String>,
        pub hidden_paths: Vec<String>,
        pub allow_ptrace: bool,
    }
}

record! {
    pub struct Resources {
        pub cpus: f64,
        pub memory_mb: u64,
        pub pids: u64,
        pub disk_mb: u64,
    }
}

record! {
    pub struct MountDefaults {
        pub workspace_path: String,
        pub runtime_path: String,
    }
}

/// Something more that is mounted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// `artifact:art_…` or `host:/path`.
    pub source: String,
    pub path: String,
    #[serde(default = "Mount::default_access")]
    pub access: MountAccess,
}

impl Mount {
    fn default_access() -> MountAccess {
        MountAccess::ReadOnly
    }
}

record! {
    pub struct Repos {
        pub default: String,
        pub allowed: Vec<String>,
        pub github_installation_id: u64,
        pub submodules: bool,
    }
}

record! {
    pub struct LeasePolicy {
        pub policy: LeasePolicyKind,
        pub default_ttl: Duration,
        pub max_lifetime: Duration,
        pub lock_delay: Duration,
        pub unreachable: UnreachablePolicy,
        pub at_release: AtRelease,
    }
}

record! {
    pub struct Root {
        pub view: RootView,
        /// With `view: image`: a directory of the host, or a tar archive, plain or with gzip.
        pub image: String,
        /// `sha256:…` of the archive's bytes, or of the directory's tree. Of an archive it is filled in when it is left out.
        pub digest: String,
    }
}

/// A port that something inside listens on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    pub port: u16,
    #[serde(default)]
    pub primary: bool,
}

record! {
    pub struct CheckpointPolicy {
        pub before_takeover: bool,
        pub after_run: bool,
        pub every: Duration,
        pub keep: u32,
    }
}

/// Files that are collected as artifacts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactRule {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default = "ArtifactRule::default_condition")]
    pub when: ArtifactCondition,
}

impl ArtifactRule {
    fn default_condition() -> ArtifactCondition {
        ArtifactCondition::Always
    }
}

record! {
    pub struct Setup {
        pub script: String,
    }
}

impl Spec {
    pub fn to_value(&self) -> Value {
        // A Spec holds only strings, numbers and maps with string keys: this cannot fail.
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// Reads a spec out of JSON, naming fields below `prefix`.
    pub fn from_value(value: Value, prefix: &str) -> Result<Self> {
        parse_value(value, prefix)
    }

    /// The whole definition: this one laid over the template, checked, and with the provider that was settled on.
    pub fn resolve(self, base: &Self, provider: ProviderName, record_name: Option<&str>) -> Result<Self> {
        if let (Some(id), Some(name)) = (&self.id, record_name)
            && id != name
        {
            return Err(Error::field(
                "spec.id",
                format!("is `{id}`, but the environment's name is `{name}`; leave it out or make them equal"),
            ));
        }
        let mut whole = base.to_value();
        merge_patch(&mut whole, &self.to_value());
        let mut whole = Self::from_value(whole, "spec")?;
        whole.settle(provider);
        whole.validate("spec")?;
        Ok(whole)
    }

    /// This definition with a merge patch laid over it. A null takes the template's value again.
    pub fn patched(&self, patch: &Value, base: &Self) -> Result<Self> {
        // Checked by itself first: a null under an unknown name would vanish in the merge. Names of variables are nobody's but the caller's.
        let mut checked = patch.clone();
        if let Some(Value::Object(variables)) = checked.get_mut("env") {
            variables.retain(|_, value| !value.is_null());
        }
        let stated = Self::from_value(checked, "spec")?;
        let provider = self.kind.unwrap_or(ProviderName::Local);
        for (field, value) in [("kind", stated.kind), ("provider", stated.provider)] {
            if let Some(other) = value.filter(|other| *other != provider) {
                return Err(provider_mismatch("the environment's provider", provider, &format!("spec.{field}"), other)
                    .suggestion("create a new environment to move to another provider"));
            }
        }
        let mut edited = self.to_value();
        let stated_root = patch.get("root");
        if stated_root.is_some_and(|root| root.get("image").is_some() && root.get("digest").is_none())
            && let Some(Value::Object(root)) = edited.get_mut("root")
            && root.get("image") != stated_root.and_then(|root| root.get("image"))
        {
            // It is of the image that was there before.
            root.remove("digest");
        }
        merge_patch(&mut edited, patch);
        let mut whole = base.to_value();
        merge_patch(&mut whole, &edited);
        let mut whole = Self::from_value(whole, "spec")?;
        whole.settle(provider);
        whole.validate("spec")?;
        Ok(whole)
    }

    /// Leaves one name for the provider, and nothing that the record itself holds.
    fn settle(&mut self, provider: ProviderName) {
        self.kind = Some(provider);
        self.provider = None;
        self.id = None;
        self.created_at = None;
        self.updated_at = None;
    }

    /// The provider that this definition names, if it does. `kind` and `provider` name one thing.
    pub fn named_provider(&self) -> Result<Option<ProviderName>> {
        match (self.kind, self.provider) {
            (Some(kind), Some(provider)) if kind != provider => Err(provider_mismatch("spec.kind", kind, "spec.provider", provider)),
            (kind, provider) => Ok(kind.or(provider)),
        }
    }

    /// SHA-256 over the definition with its keys sorted and its timestamps left out.
    pub fn fingerprint(&self) -> String {
        fingerprint::of(self)
    }

    /// The fields that a provider must answer for, with their values as text.
    pub fn posture_fields(&self) -> Vec<(&'static str, String)> {
        // Taken apart whole: a field that is added must be answered for, or this does not compile.
        let SandboxSpec {
            mode,
            workspace_access,
            network_access,
            allowed_hosts: _, // part of `network_access: allowlist`
            package_policy,
            resources,
            protected_paths,
            hidden_paths,
            allow_ptrace,
        } = self.sandbox.clone().unwrap_or_default();
        let Resources { cpus, memory_mb, pids, disk_mb } = resources.unwrap_or_default();
        let mut fields = vec![
            ("sandbox.mode", mode.unwrap_or(SandboxMode::Workspace).to_string()),
            ("sandbox.workspace_access", workspace_access.unwrap_or(WorkspaceAccess::ReadWrite).to_string()),
            ("sandbox.network_access", network_access.unwrap_or(NetworkAccess::Enabled).to_string()),
            ("sandbox.package_policy", package_policy.unwrap_or(PackagePolicy::Workspace).to_string()),
        ];
        let some = |paths: Option<Vec<String>>| paths.filter(|paths| !paths.is_empty()).map(|paths| paths.join(", "));
        let optional = [
            ("sandbox.resources.cpus", cpus.map(|value| value.to_string())),
            ("sandbox.resources.memory_mb", memory_mb.map(|value| value.to_string())),
            ("sandbox.resources.pids", pids.map(|value| value.to_string())),
            ("sandbox.resources.disk_mb", disk_mb.map(|value| value.to_string())),
            ("sandbox.protected_paths", some(protected_paths)),
            ("sandbox.hidden_paths", some(hidden_paths)),
            ("sandbox.allow_ptrace", allow_ptrace.filter(|allowed| *allowed).map(|allowed| allowed.to_string())),
        ];
        fields.extend(optional.into_iter().filter_map(|(field, value)| value.map(|value| (field, value))));
        for mount in self.mounts.iter().flatten() {
            let kind = mount.source.split(':').next().unwrap_or_default();
            fields.push(("mounts", format!("{kind}:{}", mount.access)));
        }
        if let Some((image, digest)) = self.image() {
            fields.push(("root.view", RootView::Image.to_string()));
            fields.push(("root.image", image.to_owned()));
            fields.extend(digest.map(|digest| ("root.digest", digest.to_owned())));
        }
        for binding in self.secret_bindings.iter().flatten() {
            fields.push(("secret_bindings.delivery", binding.delivery.to_string()));
            if binding.inject.as_ref().is_some_and(|inject| inject.body == Some(true)) {
                fields.push(("secret_bindings.inject.body", "true".to_owned()));
            }
        }
        fields
    }

    pub fn sandbox_mode(&self) -> SandboxMode {
        self.sandbox.as_ref().and_then(|sandbox| sandbox.mode).unwrap_or(SandboxMode::Workspace)
    }

    /// The root of its own that it names, and that one's digest.
    pub fn image(&self) -> Option<(&str, Option<&str>)> {
        let root = self.root.as_ref().filter(|root| root.view == Some(RootView::Image))?;
        Some((root.image.as_deref()?, root.digest.as_deref()))
    }

    /// Where the workspace is inside.
    pub fn workspace_path(&self) -> &str {
        let defaults = self.workspace_mount_defaults.as_ref();
        defaults.and_then(|defaults| defaults.workspace_path.as_deref()).unwrap_or("/workspace")
    }

    /// What is mounted in the workspace's place: that is the workspace then.
    pub fn bound_workspace(&self) -> Option<&Mount> {
        self.mounts.iter().flatten().find(|mount| mount.path == self.workspace_path())
    }

    /// Where a mount comes from on the host, for those that do.
    pub fn host_paths(&self) -> impl Iterator<Item = (usize, &str)> {
        self.mounts.iter().flatten().enumerate().filter_map(|(index, mount)| Some((index, mount.source.strip_prefix("host:")?)))
    }
}

pub fn provider_mismatch(left: &str, left_value: ProviderName, right: &str, right_value: ProviderName) -> Error {
    Error::new(Code::ProviderMismatch, format!("`{left}` says `{left_value}` and `{right}` says `{right_value}`, but they name one thing"))
        .detail("field", right)
        .suggestion("leave one of them out or make them equal")
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
