//! What left an environment, or wanted to.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

text_enum! {
    pub enum EgressDecision {
        /// A connection was opened; its end is a second entry with the same `connection`.
        Allowed = "allowed",
        Refused = "refused",
        /// Secrets were put into requests of an allowed connection; told once for each set of them.
        Brokered = "brokered",
        /// An allowed connection is over.
        Closed = "closed",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EgressEntry {
    pub at: Timestamp,
    pub decision: EgressDecision,
    /// The name that was asked for, or the address if there was none.
    pub host: String,
    pub port: u16,
    /// `tls`, `http`, `tcp`, `udp` or `dns`.
    pub protocol: String,
    /// Why it was refused, or how it ended, as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the program itself named, where that is why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// The names of the secrets that were brokered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Where the connection really went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    #[serde(default)]
    pub bytes_up: u64,
    #[serde(default)]
    pub bytes_down: u64,
    /// How often the same refusal came again after the entry that told of it.
    #[serde(default)]
    pub repeated: u64,
}
