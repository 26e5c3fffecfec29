//! Definitions as files: `.stead/environments/<id>.json`, and openboa's.

use serde_json::Value;

use super::openboa::OpenboaDefinition;
use super::{Spec, template};
use crate::environment::TemplateId;
use crate::error::{Code, Error, Result, parse_json};
use crate::names;
use crate::time::Timestamp;

/// A definition that was read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionFile {
    /// The file's stem, and the name of the environment that it defines.
    pub id: String,
    pub spec: Spec,
}

impl DefinitionFile {
    /// Reads one. Malformed (with line and column) and invalid (with the field) are different errors, both naming the path.
    pub fn parse(stem: &str, text: &[u8], path: &str) -> Result<Self> {
        let name_file = |error: Error| {
            let code = if error.code() == Code::MalformedJson { Code::MalformedDefinition } else { Code::InvalidDefinition };
            let mut named = Error::new(code, format!("{path}: {}", error.message())).detail("path", path);
            for (key, value) in error.details() {
                named = named.detail(key, value.clone());
            }
            named.suggestion(error.suggested().unwrap_or("mend the file and try again"))
        };
        names::check_definition_id(stem).map_err(name_file)?;
        let value: Value = parse_json(text).map_err(name_file)?;
        let spec: Spec = if is_openboa(&value) {
            parse_json::<OpenboaDefinition>(text).map_err(name_file)?.into()
        } else {
            parse_json(text).map_err(name_file)?
        };
        match &spec.id {
            None => {
                return Err(name_file(Error::field("id", "is missing").suggestion(format!("add \"id\": \"{stem}\""))));
            }
            Some(id) if id != stem => {
                let message = format!("is `{id}`, but the file is named for `{stem}`");
                return Err(name_file(Error::field("id", message).suggestion("rename the file or mend the id")));
            }
            Some(_) => {}
        }
        spec.named_provider().map_err(name_file)?;
        spec.validate("").map_err(name_file)?;
        Ok(Self { id: stem.to_owned(), spec })
    }

    /// The text of a file: two spaces, a final newline, the order of the fields as documented.
    pub fn render(id: &str, spec: &Spec, created_at: Timestamp, updated_at: Timestamp) -> String {
        let spec = Spec {
            id: Some(id.to_owned()),
            name: Some(spec.name.clone().unwrap_or_else(|| id.to_owned())),
            created_at: Some(created_at),
            updated_at: Some(updated_at),
            ..spec.clone()
        };
        let mut text = serde_json::to_string_pretty(&spec.to_value()).unwrap_or_default();
        text.push('\n');
        text
    }

    /// What `stead init` writes.
    pub fn local_default(now: Timestamp) -> String {
        let spec = Spec { name: Some("Default local environment".to_owned()), ..template(TemplateId::LocalDefault) };
        Self::render("local-default", &spec, now, now)
    }
}

/// Camel case anywhere that openboa has it.
fn is_openboa(value: &Value) -> bool {
    let has = |value: &Value, keys: &[&str]| keys.iter().any(|key| value.get(key).is_some());
    has(value, &["workspaceMountDefaults", "createdAt", "updatedAt"])
        || value.get("sandbox").is_some_and(|sandbox| has(sandbox, &["workspaceAccess", "networkAccess", "packagePolicy"]))
}
