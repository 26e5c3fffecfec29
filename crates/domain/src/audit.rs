//! The record of who changed what.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ids::{AuditId, PrincipalId, ProjectId};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    pub id: AuditId,
    pub project_id: ProjectId,
    pub at: Timestamp,
    /// Who; absent when the server acted by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal_id: Option<PrincipalId>,
    /// What, as `noun.verb`.
    pub action: String,
    pub target_type: String,
    pub target_id: String,
    /// From where.
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
}
