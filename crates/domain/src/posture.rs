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
    }
}

/// For each posture field, each value that the provider knows and how far it goes. A value that is not listed is unsupported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    pub fields: BTreeMap<String, BTreeMap<String, Enforcement>>,
}

impl Capabilities {
    #[must_use]
    pub fn with(mut self, field: &str, values: &[(&str, Enforcement)]) -> Self {
        let entry = self.fields.entry(field.to_owned()).or_default();
        entry.extend(values.iter().map(|(value, level)| ((*value).to_owned(), *level)));
        self
    }

    pub fn level(&self, field: &str, value: &str) -> Enforcement {
        let values = self.fields.get(field);
        values.and_then(|values| values.get(value).or_else(|| values.get("*"))).copied().unwrap_or(Enforcement::Unsupported)
    }

    /// What this provider makes of a definition's posture.
    pub fn effective(&self, spec: &Spec) -> Vec<EffectiveField> {
        spec.posture_fields()
            .into_iter()
            .map(|(field, value)| {
                let enforcement = self.level(field, &value);
                EffectiveField { field: field.to_owned(), declared: value, enforcement }
            })
            .collect()
    }

    /// Refuses a posture that would not be enforced, naming the first field.
    pub fn check(&self, spec: &Spec, provider: &str) -> Result<()> {
        for field in self.effective(spec) {
            if field.enforcement == Enforcement::Unsupported {
                let path = format!("spec.{}", field.field);
                return Err(Error::new(
                    Code::PostureNotEnforced,
                    format!("`{path}`: provider `{provider}` does not enforce `{}`", field.declared),
                )
                .detail("field", path)
                .detail("value", field.declared)
                .detail("provider", provider)
                .suggestion("choose a value that `stead http GET providers` lists as enforced, another provider, or accept that it is not enforced with `allow_unenforced: true` (`--allow-unenforced`)"));
            }
        }
        Ok(())
    }
}

/// One field of a posture: what was asked, and how far the provider goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectiveField {
    pub field: String,
    pub declared: String,
    pub enforcement: Enforcement,
}
