//! The environment: a named, durable record of a place where work happens.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::checkpoint::Stack;
use crate::definition::Spec;
use crate::error::{Error, Result};
use crate::ids::{CheckpointId, EnvironmentId, HostId, PrincipalId, ProjectId, SandboxId};
use crate::lease::HolderView;
use crate::posture::EffectiveField;
use crate::provider::ProviderName;
use crate::tags::Tags;
use crate::time::Timestamp;

text_enum! {
    pub enum EnvironmentStatus {
        Provisioning = "provisioning",
        Ready = "ready",
        Running = "running",
        Retained = "retained",
        Failed = "failed",
        Orphaned = "orphaned",
        Destroying = "destroying",
        Destroyed = "destroyed",
    }
}

text_enum! {
    pub enum EnvironmentMode {
        Manual = "manual",
        Run = "run",
        Agent = "agent",
        Automation = "automation" | "loop",
    }
}

text_enum! {
    /// Who ends it: its run, its lease, or only a call to delete.
    pub enum Lifetime {
        Run = "run",
        Lease = "lease",
        Explicit = "explicit",
    }
}

text_enum! {
    pub enum Purpose {
        Implementation = "implementation",
        Review = "review",
        Verification = "verification",
        Preview = "preview",
        Debug = "debug",
        Worker = "worker",
        Custom = "custom",
    }
}

text_enum! {
    pub enum BoundToType {
        None = "none",
        Run = "run",
        WorkerSession = "worker_session",
        Service = "service",
        Agent = "agent",
        Automation = "automation" | "loop",
        Manual = "manual",
    }
}

text_enum! {
    pub enum RetentionPolicy {
        Manual = "manual",
        DestroyOnSuccess = "destroy_on_success",
        RetainOnFailure = "retain_on_failure",
        RetainAlways = "retain_always",
    }
}

text_enum! {
    pub enum CleanupStatus {
        None = "none",
        Pending = "pending",
        Succeeded = "succeeded",
        Failed = "failed",
        Skipped = "skipped",
    }
}

text_enum! {
    /// Whose names it shares: with `owner`, only those of the same owner; without, those of the project.
    pub enum Scope {
        Owner = "owner",
    }
}

text_enum! {
    /// Which scopes a list shows: with `owner` those of owners, with `any` all of them; without, the project's own.
    pub enum ScopeFilter {
        Owner = "owner",
        Any = "any",
    }
}

text_enum! {
    /// The built-in definitions that a new one may start from.
    pub enum TemplateId {
        CodingDefault = "coding-default",
        LocalDefault = "local-default",
    }
}

/// An environment as every surface shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Environment {
    pub id: EnvironmentId,
    pub project_id: ProjectId,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    pub provider: ProviderName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_resource_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_resource_name: Option<String>,
    pub status: EnvironmentStatus,
    pub environment_mode: EnvironmentMode,
    pub lifetime: Lifetime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to_type: Option<BoundToType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<PrincipalId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<PrincipalId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<TemplateId>,
    /// What can be done in it now.
    pub capabilities: Vec<String>,
    pub spec_version: u64,
    pub spec: Spec,
    pub runtime: Runtime,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    pub contains_secrets: bool,
    pub cleanup_status: CleanupStatus,
    pub retention_policy: RetentionPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Timestamp>,
    /// Who may change it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HolderView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconciled_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destroyed_at: Option<Timestamp>,
    /// The sandbox behind it.
    pub sandbox_id: SandboxId,
    /// SHA-256 of the definition without its timestamps.
    pub fingerprint: String,
    /// Whether the caller accepted a posture that the provider does not enforce.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unenforced: bool,
    /// Counts edits by callers; what `ETag` and `If-Match` compare.
    #[serde(skip)]
    pub revision: u64,
    /// Of the sandbox behind it.
    #[serde(skip)]
    pub stack: Stack,
}

impl Environment {
    /// Moves on to another state, if the table of states allows it.
    pub fn advance(&mut self, next: EnvironmentStatus) -> Result<()> {
        if !self.status.may_become(next) {
            return Err(Error::internal(format!("environment {} is `{}` and cannot become `{next}`", self.id, self.status)));
        }
        self.status = next;
        Ok(())
    }
}

/// The truth about the sandbox, beside what the record says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Runtime {
    /// The provider that really serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderName>,
    /// The host that keeps it, for local ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostId>,
    /// The checkpoint that its files come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<CheckpointId>,
    /// How many sealed layers its files lie in, below what it writes to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub layers: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<ProviderStatus>,
    /// The posture as declared, and how far the provider goes for each field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub posture: Vec<EffectiveField>,
    /// Whoever keeps it is of another version than the server: it takes no new process, and ends with its last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// Where its declared ports are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<RuntimeUrls>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: Map<String, Value>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuntimeUrls {
    /// The declared port that is `primary`, or the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
}

/// What the provider said when it was last asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProviderStatus {
    pub state: String,
    pub observed_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One version of an environment's definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DefinitionVersion {
    pub version: u64,
    pub fingerprint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<PrincipalId>,
    pub created_at: Timestamp,
    /// The version that this one was copied from, after a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_to: Option<u64>,
    pub spec: Spec,
}

/// One difference between two versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Where, as a path of field names.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub from: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub to: Option<Value>,
}

/// What differs between two JSON values, leaf by leaf; lists are compared whole.
pub fn differences(from: &Value, to: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    collect_differences(String::new(), Some(from), Some(to), &mut changes);
    changes
}

fn collect_differences(path: String, from: Option<&Value>, to: Option<&Value>, changes: &mut Vec<Change>) {
    match (from, to) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect_differences(path, left.get(key), right.get(key), changes);
            }
        }
        (from, to) if from != to => changes.push(Change { path, from: from.cloned(), to: to.cloned() }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_of_automation_are_taken_and_one_is_answered() {
        let mode: EnvironmentMode = serde_json::from_value(json!("loop")).unwrap();
        assert_eq!(serde_json::to_value(mode).unwrap(), json!("automation"));
        assert_eq!("loop".parse::<BoundToType>().unwrap(), BoundToType::Automation);
        assert!("nope".parse::<EnvironmentMode>().is_err());
    }

    #[test]
    fn differences_name_the_leaf() {
        let changes = differences(&json!({"a": {"b": 1, "c": [1]}, "d": 1}), &json!({"a": {"b": 2, "c": [1]}, "e": null}));
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, ["a.b", "d", "e"]);
        assert!(differences(&json!({"a": 1}), &json!({"a": 1})).is_empty());
    }
}
