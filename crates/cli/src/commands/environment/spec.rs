//! Definitions as the command line builds them: from files, from single fields, and as the patch that turns one into another.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value, json};
use stead_domain::definition::{Mount, Spec, merge_patch};
use stead_domain::error::parse_json;
use stead_domain::{Code, Error};

use crate::definitions;
use crate::failure::{Failure, Result, file_error};

const LARGEST_INPUT: u64 = 1 << 20;

/// Reads JSON from a file, or from stdin for `-`.
pub fn read_json(path: &Path) -> Result<Value> {
    let (path, text) = if path == Path::new("-") {
        let (path, mut text) = (Path::new("stdin"), Vec::new());
        std::io::stdin().take(LARGEST_INPUT).read_to_end(&mut text).map_err(|error| file_error("read", path, &error))?;
        (path, text)
    } else {
        (path, definitions::read_bounded(path)?)
    };
    parse_json(&text).map_err(|error| {
        let mut named = Error::new(Code::MalformedDefinition, format!("{}: {}", path.display(), error.message()));
        for (key, value) in error.details() {
            named = named.detail(key, value.clone());
        }
        named.detail("path", path.display().to_string()).suggestion("mend the file and try again").into()
    })
}

/// Lays `path=value` over a merge patch. The value is JSON where it can be read as JSON, and text otherwise.
pub fn set(patch: &mut Value, path: &str, value: &str) -> Result<()> {
    let keys: Vec<&str> = path.split('.').collect();
    if keys.iter().any(|key| key.is_empty() || key.contains(['[', ']'])) {
        return Err(Failure::Domain(
            Error::new(Code::Usage, format!("`{path}` is not a path of field names such as sandbox.network_access"))
                .suggestion("set a whole list as JSON, e.g. --set 'ports=[{\"port\": 3000}]'"),
        ));
    }
    let mut leaf: Value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    for key in keys.into_iter().rev() {
        leaf = Value::Object(Map::from_iter([(key.to_owned(), leaf)]));
    }
    overlay(patch, leaf);
    Ok(())
}

/// Like a merge, but a null stays: in a patch it means something.
fn overlay(target: &mut Value, above: Value) {
    match (target, above) {
        (Value::Object(target), Value::Object(above)) => {
            for (key, value) in above {
                match target.get_mut(&key) {
                    Some(present) => overlay(present, value),
                    None => drop(target.insert(key, value)),
                }
            }
        }
        (target, above) => *target = above,
    }
}

/// The merge patch that makes `present` into `wanted`: what is wanted, and a null for everything else that is there.
pub fn replacement(present: &Value, wanted: &Value) -> Value {
    let (Value::Object(present), Value::Object(wanted)) = (present, wanted) else { return wanted.clone() };
    let mut patch = Map::new();
    for (key, value) in wanted {
        let patched = present.get(key).map_or_else(|| value.clone(), |present| replacement(present, value));
        patch.insert(key.clone(), patched);
    }
    for key in present.keys().filter(|key| !wanted.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// A definition without what the record itself holds.
pub fn without_record_fields(spec: &Spec) -> Value {
    Spec { id: None, created_at: None, updated_at: None, ..spec.clone() }.to_value()
}

/// Adds mounts to those of a definition; what was mounted at the same path before gives way.
pub fn with_mounts(present: Option<&Value>, more: &[Mount]) -> Value {
    let mut mounts = present.and_then(Value::as_array).cloned().unwrap_or_default();
    mounts.retain(|mount| more.iter().all(|new| mount["path"] != new.path.as_str()));
    mounts.extend(more.iter().map(|mount| json!(mount)));
    Value::Array(mounts)
}

/// What the flags of `env create` say of the definition.
#[derive(Default)]
pub struct Shorthand<'flags> {
    pub repositories: &'flags [String],
    pub github_installation: Option<u64>,
    pub secrets: &'flags [String],
    pub optional_secrets: &'flags [String],
    pub network: Option<&'flags str>,
    pub allowed_hosts: &'flags [String],
}

impl Shorthand<'_> {
    /// Adds to the lists that the definition has; the rest comes before what it says.
    pub fn lay_over(&self, spec: &mut Value) {
        if !self.repositories.is_empty() {
            let mut repos =
                json!({ "allowed": extended(spec.pointer("/repos/allowed"), self.repositories.iter().map(|name| json!(name))) });
            if spec.pointer("/repos/default").is_none() {
                repos["default"] = json!(self.repositories[0]);
            }
            merge_patch(spec, &json!({ "repos": repos }));
        }
        if let Some(installation) = self.github_installation {
            merge_patch(spec, &json!({ "repos": { "github_installation_id": installation } }));
        }
        if !self.secrets.is_empty() || !self.optional_secrets.is_empty() {
            let binding = |required: bool| move |name: &String| json!({ "name": name, "required": required });
            let more = self.secrets.iter().map(binding(true)).chain(self.optional_secrets.iter().map(binding(false)));
            let bindings = extended(spec.get("secret_bindings"), more);
            merge_patch(spec, &json!({ "secret_bindings": bindings }));
        }
        if let Some(network) = self.network {
            merge_patch(spec, &json!({ "sandbox": { "network_access": network } }));
        }
        if !self.allowed_hosts.is_empty() {
            let hosts = extended(spec.pointer("/sandbox/allowed_hosts"), self.allowed_hosts.iter().map(|host| json!(host)));
            merge_patch(spec, &json!({ "sandbox": { "allowed_hosts": hosts } }));
        }
    }
}

fn extended(present: Option<&Value>, more: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut list = present.and_then(Value::as_array).cloned().unwrap_or_default();
    for value in more {
        if !list.contains(&value) {
            list.push(value);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_json_where_it_can_be() {
        let mut patch = json!({});
        for (path, value) in [
            ("sandbox.network_access", "disabled"),
            ("sandbox.resources.memory_mb", "4096"),
            ("setup", "null"),
            ("ports", "[{\"port\": 3000}]"),
            ("env.A", "\"1\""),
            ("env.B", ""),
            ("sandbox.resources.pids", "5"),
        ] {
            set(&mut patch, path, value).unwrap();
        }
        let expected = json!({
            "sandbox": { "network_access": "disabled", "resources": { "memory_mb": 4096, "pids": 5 } },
            "setup": null, "ports": [{ "port": 3000 }], "env": { "A": "1", "B": "" }
        });
        assert_eq!(patch, expected);
        set(&mut patch, "sandbox", "null").unwrap();
        assert_eq!(patch["sandbox"], Value::Null);
        for path in ["", ".", "a..b", "ports[0].port", "a."] {
            assert!(set(&mut patch, path, "1").is_err(), "{path}");
        }
    }

    #[test]
    fn a_replacement_leaves_what_is_wanted_and_nothing_else() {
        let present = json!({"a": {"b": 1, "c": 2}, "d": [1], "e": 1});
        for wanted in [json!({"a": {"b": 3}, "d": [2]}), json!({}), present.clone(), json!({"a": 1, "f": {"g": {}}})] {
            let mut result = present.clone();
            merge_patch(&mut result, &replacement(&present, &wanted));
            assert_eq!(result, wanted);
        }
    }

    #[test]
    fn shorthand_adds_to_lists() {
        let mut spec = json!({"repos": {"allowed": ["acme/lib"]}});
        let (repositories, secrets) = (["acme/web".to_owned(), "acme/lib".to_owned()], ["A".to_owned()]);
        let shorthand =
            Shorthand { repositories: &repositories, optional_secrets: &secrets, network: Some("disabled"), ..Shorthand::default() };
        shorthand.lay_over(&mut spec);
        let expected = json!({
            "repos": { "allowed": ["acme/lib", "acme/web"], "default": "acme/web" },
            "secret_bindings": [{ "name": "A", "required": false }],
            "sandbox": { "network_access": "disabled" }
        });
        assert_eq!(spec, expected);
    }
}
