//! One definition, one fingerprint, whatever the order of its keys and whenever it was written.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Spec;

pub(super) fn of(spec: &Spec) -> String {
    let mut value = spec.to_value();
    if let Value::Object(fields) = &mut value {
        fields.remove("created_at");
        fields.remove("updated_at");
    }
    value.sort_all_objects();
    Sha256::digest(value.to_string().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
