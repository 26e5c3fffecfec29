//! The published shapes: which fields there must be, which there may be, and what each holds.

use serde_json::Value;
use stead_domain::Timestamp;

#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    Time,
    Flag,
    /// A whole number from 1.
    Count,
    /// Any whole number.
    Whole,
    Object,
    /// Up to 50 texts.
    Texts,
    Tags,
    OneOf(&'static [&'static str]),
    /// One of theirs or of what Stead adds to them.
    OneOfOr(&'static [&'static str], &'static [&'static str]),
    Nested(&'static Shape),
    List(&'static Shape),
}

pub struct Shape {
    pub name: &'static str,
    pub required: &'static [(&'static str, Kind)],
    pub optional: &'static [(&'static str, Kind)],
    /// What Stead adds; none where the published clients refuse a field that they do not know.
    pub ours: &'static [(&'static str, Kind)],
}

use Kind::{Count, Flag, List, Nested, Object, OneOf, OneOfOr, Tags, Text, Texts, Time, Whole};

pub static ENVIRONMENT: Shape = Shape {
    name: "Environment",
    required: &[
        ("id", Text),
        ("name", Text),
        ("provider", OneOfOr(&["sprites", "cloudflare_containers", "worker"], &["local", "docker", "daytona"])),
        ("status", OneOf(&["provisioning", "ready", "running", "retained", "destroying", "destroyed", "failed", "orphaned"])),
        ("environment_mode", OneOf(&["manual", "run", "agent", "automation"])),
        ("lifetime", OneOf(&["run", "lease", "explicit"])),
        ("capabilities", Texts),
        ("spec_version", Count),
        ("runtime", Object),
        ("contains_secrets", Flag),
        ("cleanup_status", OneOf(&["none", "pending", "succeeded", "failed", "skipped"])),
        ("retention_policy", OneOf(&["manual", "destroy_on_success", "retain_on_failure", "retain_always"])),
        ("created_at", Time),
        ("updated_at", Time),
    ],
    optional: &[
        ("scope", OneOf(&["owner"])),
        ("provider_resource_id", Text),
        ("provider_resource_name", Text),
        ("purpose", OneOf(&["implementation", "review", "verification", "preview", "debug", "worker", "custom"])),
        ("owned_by", Text),
        ("bound_to_type", OneOf(&["none", "run", "worker_session", "service", "agent", "automation", "manual"])),
        ("bound_to_id", Text),
        ("created_by", Text),
        ("updated_by", Text),
        ("run_id", Text),
        ("job_id", Text),
        ("current_worker_session_id", Text),
        ("agent_id", Text),
        ("template_id", OneOfOr(&["coding-default"], &["local-default"])),
        ("spec", Object),
        ("tags", Tags),
        ("lease_expires_at", Time),
        ("last_seen_at", Time),
        ("last_reconciled_at", Time),
        ("last_error", Text),
        ("destroyed_at", Time),
    ],
    ours: &[("project_id", Text), ("sandbox_id", Text), ("fingerprint", Text), ("allow_unenforced", Flag), ("held_by", Object)],
};

pub static ENVIRONMENT_LIST: Shape = Shape {
    name: "EnvironmentListResponse",
    required: &[("items", List(&ENVIRONMENT)), ("has_more", Flag)],
    optional: &[("next_cursor", Text)],
    ours: &[],
};

pub static LEASE: Shape = Shape {
    name: "EnvironmentLease",
    required: &[
        ("id", Text),
        ("environment_id", Text),
        ("status", OneOf(&["active", "released", "expired", "revoked"])),
        ("acquired_at", Time),
    ],
    optional: &[
        ("holder_type", OneOf(&["none", "run", "worker_session", "service", "agent", "automation", "loop", "manual"])),
        ("holder_id", Text),
        ("purpose", OneOf(&["implementation", "review", "verification", "preview", "debug", "worker", "custom"])),
        ("expires_at", Time),
        ("released_at", Time),
    ],
    ours: &[
        ("sandbox_id", Text),
        ("stage", OneOf(&["fencing", "active", "stopping"])),
        ("mode", OneOf(&["exclusive", "shared"])),
        ("bind", OneOf(&["principal", "token"])),
        ("fence", Count),
        ("principal_id", Text),
        ("holder", Text),
        ("note", Text),
        ("at_release", OneOf(&["keep", "checkpoint", "clean", "destroy"])),
        ("expires_in_ms", Count),
        ("renew_after_ms", Count),
        ("max_expires_in_ms", Count),
        ("clean", Flag),
        ("token", Text),
        ("previous", Object),
    ],
};

pub static ACQUIRE_RESULT: Shape = Shape {
    name: "EnvironmentAcquireResult",
    required: &[("environment", Nested(&ENVIRONMENT)), ("lease", Nested(&LEASE))],
    optional: &[],
    ours: &[],
};

pub static EXEC_RESULT: Shape = Shape {
    name: "EnvironmentExecResult",
    required: &[("stdout", Text), ("stderr", Text), ("exit_code", Whole)],
    optional: &[],
    ours: &[],
};

const KEY_REQUIRED: &[(&str, Kind)] = &[
    ("id", Text),
    ("name", Text),
    ("key_prefix", Text),
    ("project_id", Text),
    ("principal_id", Text),
    ("created_at", Time),
    ("updated_at", Time),
];

const KEY_OPTIONAL: &[(&str, Kind)] = &[("expires_at", Time), ("last_used_at", Time), ("tags", Tags)];

pub static API_KEY: Shape = Shape { name: "APIKey", required: KEY_REQUIRED, optional: KEY_OPTIONAL, ours: &[] };

pub static API_KEY_RESULT: Shape = Shape {
    name: "APIKeyCreateResult",
    required: &[
        KEY_REQUIRED[0],
        KEY_REQUIRED[1],
        KEY_REQUIRED[2],
        KEY_REQUIRED[3],
        KEY_REQUIRED[4],
        KEY_REQUIRED[5],
        KEY_REQUIRED[6],
        ("key", Text),
    ],
    optional: KEY_OPTIONAL,
    ours: &[],
};

pub static API_KEY_LIST: Shape = Shape {
    name: "APIKeyListResponse",
    required: &[("items", List(&API_KEY)), ("has_more", Flag)],
    optional: &[("next_cursor", Text)],
    ours: &[],
};

static ERROR_CONTENT: Shape =
    Shape { name: "ErrorResponse.error", required: &[("code", Text), ("message", Text)], optional: &[("details", Object)], ours: &[] };

pub static ERROR: Shape = Shape { name: "ErrorResponse", required: &[("error", Nested(&ERROR_CONTENT))], optional: &[], ours: &[] };

impl Shape {
    /// Fails on a field that is missing, unknown, null or of another kind.
    #[track_caller]
    pub fn check(&self, value: &Value) {
        assert_no_null(self.name, value);
        let fields = value.as_object().unwrap_or_else(|| panic!("{} is no object: {value}", self.name));
        for (field, _) in self.required {
            assert!(fields.contains_key(*field), "{}.{field} is missing: {value}", self.name);
        }
        for (field, value) in fields {
            let known = self.required.iter().chain(self.optional).chain(self.ours).find(|(known, _)| known == field);
            let (_, kind) = known.unwrap_or_else(|| panic!("{} has no field {field}", self.name));
            kind.check(&format!("{}.{field}", self.name), value);
        }
    }
}

impl Kind {
    #[track_caller]
    fn check(self, path: &str, value: &Value) {
        let fits = match self {
            Text => value.is_string(),
            Time => value.as_str().is_some_and(is_time),
            Flag => value.is_boolean(),
            Whole => value.is_i64() || value.is_u64(),
            Count => value.as_u64().is_some_and(|number| number >= 1),
            Object => value.is_object(),
            Texts => value.as_array().is_some_and(|items| items.len() <= 50 && items.iter().all(Value::is_string)),
            Tags => value.as_object().is_some_and(|tags| tags.len() <= 8 && tags.values().all(Value::is_string)),
            OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            OneOfOr(theirs, ours) => value.as_str().is_some_and(|word| theirs.contains(&word) || ours.contains(&word)),
            Nested(shape) => {
                shape.check(value);
                true
            }
            List(shape) => {
                value.as_array().unwrap_or_else(|| panic!("{path} is no list")).iter().for_each(|item| shape.check(item));
                true
            }
        };
        assert!(fits, "{path} is {value}");
    }
}

/// RFC 3339 with a zone: a time without one is refused by the published Python client.
fn is_time(text: &str) -> bool {
    let zoned = text.ends_with('Z') || text.get(text.len().saturating_sub(6)..).is_some_and(|zone| zone.starts_with(['+', '-']));
    zoned && text.as_bytes().get(10) == Some(&b'T') && text.parse::<Timestamp>().is_ok()
}

#[track_caller]
fn assert_no_null(path: &str, value: &Value) {
    match value {
        Value::Null => panic!("{path} is null"),
        Value::Array(items) => items.iter().for_each(|item| assert_no_null(path, item)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| assert_no_null(&format!("{path}.{name}"), value)),
        _ => {}
    }
}
