//! API keys: `stk_` and 256 random bits. The key is shown once; its SHA-256 is what is kept.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::context::Context;
use crate::ids::{ApiKeyId, PrincipalId, ProjectId};
use crate::tags::Tags;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub name: String,
    /// The first characters of the key, to recognise it by.
    pub key_prefix: String,
    pub project_id: ProjectId,
    pub principal_id: PrincipalId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The reply to a creation: the only time the key itself is told.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct ApiKeyWithSecret {
    #[serde(flatten)]
    pub api_key: ApiKey,
    pub key: String,
}

// Written by hand so that no debug output ever holds a key.
impl std::fmt::Debug for ApiKeyWithSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ApiKeyWithSecret").field("api_key", &self.api_key).finish_non_exhaustive()
    }
}

const PREFIX: &str = "stk_";
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A new key: 256 random bits in base 32, which has no dot, so that `.<project>` can be appended.
pub fn generate(context: &Context) -> String {
    let bytes: [u8; 32] = context.random();
    let mut text = String::from(PREFIX);
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in bytes {
        buffer = (buffer << 8) | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[(buffer >> bits) as usize & 31]));
        }
        buffer &= (1 << bits) - 1;
    }
    text.push(char::from(ALPHABET[(buffer << (5 - bits)) as usize & 31]));
    text
}

/// What is stored in place of the key.
pub fn hash(key: &str) -> String {
    hash_bytes(key.as_bytes())
}

/// SHA-256 in hexadecimal.
pub fn hash_bytes(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The part of a key that may be shown again.
pub fn prefix(key: &str) -> String {
    key.chars().take(PREFIX.len() + 6).collect()
}

/// Splits a presented credential into the key and the project that it claims, if it does.
pub fn split(credential: &str) -> (&str, Option<&str>) {
    match credential.rsplit_once('.') {
        Some((key, project)) => (key, Some(project)),
        None => (credential, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_256_bits_and_no_dot() {
        let key = generate(&crate::ids::tests::context());
        assert_eq!(key.len(), 4 + 52);
        assert!(key.starts_with("stk_") && !key.contains('.'));
        assert_eq!(split(&format!("{key}.default")), (key.as_str(), Some("default")));
        assert_eq!(split(&key), (key.as_str(), None));
        assert_eq!(prefix(&key).len(), 10);
        assert_eq!(hash("a").len(), 64);
    }
}
