//! The secrets that come with a start. They are in the memory of the steward and of the place, and nowhere else.

use serde::{Deserialize, Serialize};
use stead_egress::broker::{BrokerText, Value};

/// Where files lie inside: in memory, read-only, and where nothing else can be put.
pub const DIRECTORY: &str = "/run/stead-secrets";
/// What tells programs so.
pub const DIRECTORY_VARIABLE: &str = "STEAD_SECRETS_DIR";

/// All that the environment has now: what came with an earlier start and is not here is taken back, except from what is not to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// What lies in the directory for secrets, and nothing beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SecretFile>,
    /// What is taken out of everything that is said inside, from now on and by whomever.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<KnownValue>,
    /// What never enters the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<BrokerText>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretFile {
    pub name: String,
    pub bytes: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownValue {
    /// What stands in its place.
    pub replacement: String,
    pub bytes: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_shown_and_bytes_that_are_no_text_arrive() {
        let value = || Value::new(b"correct-horse\xff\0".to_vec());
        let secrets = Secrets {
            files: vec![SecretFile { name: "TOKEN".to_owned(), bytes: value() }],
            known: vec![KnownValue { replacement: "***TOKEN***".to_owned(), bytes: value() }],
            broker: None,
        };
        let shown = format!("{secrets:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("horse") && !shown.contains("99, 111"), "{shown}");
        let sent = serde_json::to_string(&secrets).unwrap();
        assert_eq!(serde_json::from_str::<Secrets>(&sent).unwrap(), secrets);
    }
}
