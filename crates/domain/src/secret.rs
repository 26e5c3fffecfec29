//! Secrets of a project: what may be told of them, which is never the value; and a value on its way to who needs it.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::ids::{PrincipalId, ProjectId, SecretId};
use crate::time::Timestamp;

/// The longest value, in bytes. What is longer is a file, and not a secret.
pub const LONGEST_VALUE: usize = 64 << 10;
/// The longest name: it becomes the name of a variable and of a file.
pub const LONGEST_NAME: usize = 128;

/// What gives power over a provider, or over every repository of an installation. It may be stored, and is used by the server alone.
pub const NEVER_BOUND: &[&str] = &["SPRITES_TOKEN", "DAYTONA_API_KEY", "GITHUB_APP_PRIVATE_KEY", "GITHUB_APP_CLIENT_SECRET"];

/// A secret without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    pub id: SecretId,
    pub project_id: ProjectId,
    #[schema(pattern = "^[A-Z_][A-Z0-9_]*$")]
    pub name: String,
    /// Counts how often it was set.
    pub version: u64,
    pub created_by: PrincipalId,
    pub created_at: Timestamp,
    pub updated_by: PrincipalId,
    pub updated_at: Timestamp,
}

/// A secret that was set, and what there is to know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretSet {
    #[serde(flatten)]
    pub secret: Secret,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How a change of the master key went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyRotation {
    /// Which key seals now; nothing of the key itself.
    pub key_id: String,
    /// Which one did.
    pub previous_key_id: String,
    /// How many secrets were wrapped anew.
    pub rewrapped: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One time that a secret was set. Only the last value is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretVersion {
    pub version: u64,
    /// Whether this is the one that is used.
    pub current: bool,
    pub created_by: PrincipalId,
    pub created_at: Timestamp,
}

/// The versions of a secret, the last one first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretHistory {
    pub items: Vec<SecretVersion>,
}

/// What a secret is set to.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSecretValue {
    /// As text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 65536)]
    pub value: Option<String>,
    /// As bytes, in base64; for what is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
}

impl fmt::Debug for NewSecretValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NewSecretValue")
    }
}

impl Drop for NewSecretValue {
    fn drop(&mut self) {
        self.value.zeroize();
        self.value_base64.zeroize();
    }
}

/// A value. It is shown by nothing, and gone from memory when nobody has it any more.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Vec<u8>);

impl SecretValue {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretValue")
    }
}

impl Drop for SecretValue {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Whether a name may be a secret's.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let rest = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if !first || !rest || name.len() > LONGEST_NAME {
        return Err(Error::field(
            field,
            format!(
                "must be upper-case letters, digits and underscores, not begin with a digit, and have at most {LONGEST_NAME} characters"
            ),
        )
        .suggestion("a secret is named as a variable is, such as OPENAI_API_KEY"));
    }
    Ok(())
}

/// Whether something may be a secret's value.
pub fn check_value(field: &str, value: &[u8]) -> Result<()> {
    if value.is_empty() {
        return Err(Error::field(field, "is empty").suggestion("delete the secret to have none"));
    }
    if value.len() > LONGEST_VALUE {
        return Err(Error::field(field, format!("is longer than {LONGEST_VALUE} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_variables() {
        for good in ["A", "_", "OPENAI_API_KEY", "A1", "_1"] {
            check_name("name", good).unwrap();
        }
        for bad in ["", "a", "1A", "A-B", "A B", "Ä", "A\n", "A=B", "../A", &"A".repeat(129)] {
            assert!(check_name("name", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_shown_by_nothing() {
        let value = SecretValue::new(b"hunter22".to_vec());
        assert_eq!(format!("{value:?}"), "SecretValue");
        let new = NewSecretValue { value: Some("hunter22".to_owned()), value_base64: None };
        assert_eq!(format!("{new:?}"), "NewSecretValue");
    }
}
