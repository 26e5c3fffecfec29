//! What a provider enforces of a posture, field by field and value by value. Enforce or refuse: never a silent weaker mode.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::definition::Spec;
use crate::error::{Code, Error, Result};

text_enum! {
    /// How far a provider goes for one value of one field.
    pub enum Enforcement {
        /// It holds, whatever runs inside.
        Enforced = "enforced",
        /// It is watched and reported, and may be passed for a moment.
        BestEffort = "best_effort",
        /// It does nothing for it.
        Unsupported = "unsupported",
        /// It could, and the host does not let it; `stead doctor` says what would have to change there.
        Unavailable = "unavailable",
    }
}

/// Among the values of a field that is not `mounts`: how far the provider goes for it where a directory of the host can be written too.
pub const BESIDE: &str = "host:rw";

/// For each posture field, each value that the provider knows and how far it goes. A value that is not listed is unsupported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    pub fields: BTreeMap<String, BTreeMap<String, Enforcement>>,
    /// Why a value is `unavailable`, by field and value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, BTreeMap<String, String>>,
}

impl Capabilities {
    #[must_use]
    pub fn with(mut self, field: &str, values: &[(&str, Enforcement)]) -> Self {
        let entry = self.fields.entry(field.to_owned()).or_default();
        entry.extend(values.iter().map(|(value, level)| ((*value).to_owned(), *level)));
        self
    }

    /// These values hold, unless something stands in the way: then they are `unavailable`, and that is why.
    #[must_use]
    pub fn unless(mut self, obstacle: Option<&str>, field: &str, values: &[&str]) -> Self {
        if let Some(reason) = obstacle {
            let reasons = self.reasons.entry(field.to_owned()).or_default();
            reasons.extend(values.iter().map(|value| ((*value).to_owned(), reason.to_owned())));
        }
        let level = if obstacle.is_none() { Enforcement::Enforced } else { Enforcement::Unavailable };
        values.iter().fold(self, |capabilities, value| capabilities.with(field, &[(value, level)]))
    }

    pub fn level(&self, field: &str, value: &str) -> Enforcement {
        listed(&self.fields, field, value).copied().unwrap_or(Enforcement::Unsupported)
    }

    /// Why the host does not let a value be held.
    pub fn reason(&self, field: &str, value: &str) -> Option<&str> {
        listed(&self.reasons, field, value).map(String::as_str)
    }

    /// What this provider makes of a definition's posture.
    pub fn effective(&self, spec: &Spec) -> Vec<EffectiveField> {
        let fields = spec.posture_fields();
        let shares = fields.iter().any(|(field, value)| *field == "mounts" && value == BESIDE);
        fields
            .into_iter()
            .map(|(field, value)| {
                let beside = self.fields.get(field).and_then(|values| values.get(BESIDE)).filter(|_| shares && field != "mounts");
                let enforcement = beside.copied().unwrap_or_else(|| self.level(field, &value));
                let reason = (enforcement == Enforcement::Unavailable).then(|| self.reason(field, &value).map(str::to_owned)).flatten();
                EffectiveField { field: field.to_owned(), declared: value, enforcement, reason }
            })
            .collect()
    }

    /// Refuses a posture that would not be enforced, naming the first field.
    pub fn check(&self, spec: &Spec, provider: &str) -> Result<()> {
        let missing = |field: &EffectiveField| matches!(field.enforcement, Enforcement::Unsupported | Enforcement::Unavailable);
        self.effective(spec).into_iter().find(missing).map_or(Ok(()), |field| Err(field.refused(provider)))
    }
}

fn listed<'a, T>(fields: &'a BTreeMap<String, BTreeMap<String, T>>, field: &str, value: &str) -> Option<&'a T> {
    fields.get(field).and_then(|values| values.get(value).or_else(|| values.get("*")))
}

/// One field of a posture: what was asked, and how far the provider goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectiveField {
    pub field: String,
    pub declared: String,
    pub enforcement: Enforcement,
    /// Why it is `unavailable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl EffectiveField {
    /// Why this field keeps an environment from being made.
    fn refused(self, provider: &str) -> Error {
        let path = format!("spec.{}", self.field);
        let (message, suggestion) = match &self.reason {
            Some(reason) => (
                format!("`{path}`: this host cannot hold `{}`: {reason}", self.declared),
                "`stead doctor` says what this host lacks, and `stead doctor --fix` mends what can be mended; or leave the field out, or accept that it is not enforced with `allow_unenforced: true` (`--allow-unenforced`)",
            ),
            None => (
                format!("`{path}`: provider `{provider}` does not enforce `{}`", self.declared),
                "choose a value that `stead http GET providers` lists as enforced, another provider, or accept that it is not enforced with `allow_unenforced: true` (`--allow-unenforced`)",
            ),
        };
        let error = Error::new(Code::PostureNotEnforced, message)
            .detail("field", path)
            .detail("value", self.declared)
            .detail("provider", provider)
            .detail("enforcement", self.enforcement.as_str())
            .suggestion(suggestion);
        match self.reason {
            Some(reason) => error.detail("reason", reason),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited() -> Spec {
        serde_json::from_value(serde_json::json!({ "sandbox": { "resources": { "memory_mb": 512 } } })).unwrap()
    }

    fn open() -> Capabilities {
        Capabilities::default()
            .with("sandbox.mode", &[("*", Enforcement::Enforced)])
            .with("sandbox.workspace_access", &[("*", Enforcement::Enforced)])
            .with("sandbox.network_access", &[("*", Enforcement::Enforced)])
            .with("sandbox.package_policy", &[("*", Enforcement::BestEffort)])
    }

    #[test]
    fn a_directory_of_the_host_may_take_something_from_a_bound() {
        let field = "sandbox.resources.disk_mb";
        let capabilities = open().with(field, &[("*", Enforcement::Enforced), (BESIDE, Enforcement::BestEffort)]);
        let level = |mounts: serde_json::Value| {
            let spec = serde_json::json!({ "sandbox": { "resources": { "disk_mb": 64 } }, "mounts": mounts });
            let effective = capabilities.effective(&serde_json::from_value(spec).unwrap());
            effective.into_iter().find(|found| found.field == field).map(|found| (found.declared, found.enforcement))
        };
        let mount = |access: &str| serde_json::json!([{ "source": "host:/srv", "path": "/srv", "access": access }]);
        assert_eq!(level(mount("ro")), Some(("64".to_owned(), Enforcement::Enforced)));
        assert_eq!(level(mount("rw")), Some(("64".to_owned(), Enforcement::BestEffort)));
    }

    #[test]
    fn what_the_host_keeps_from_being_held_is_refused_with_its_reason() {
        let field = "sandbox.resources.memory_mb";
        open().unless(None, field, &["*"]).check(&limited(), "local").unwrap();
        let capabilities = open().unless(Some("no cgroup is delegated"), field, &["*"]);
        let error = capabilities.check(&limited(), "local").unwrap_err();
        assert_eq!(error.code(), Code::PostureNotEnforced);
        assert_eq!(error.message(), "`spec.sandbox.resources.memory_mb`: this host cannot hold `512`: no cgroup is delegated");
        assert!(error.suggested().unwrap().contains("stead doctor --fix"));
        let effective = capabilities.effective(&limited()).pop().unwrap();
        assert_eq!((effective.enforcement, effective.reason.as_deref()), (Enforcement::Unavailable, Some("no cgroup is delegated")));
    }

    #[test]
    fn what_nobody_claims_is_unsupported_and_has_no_reason() {
        let error = open().check(&limited(), "local").unwrap_err();
        assert!(error.message().ends_with("does not enforce `512`"), "{error}");
        assert_eq!(open().effective(&limited()).pop().unwrap().reason, None);
    }
}
