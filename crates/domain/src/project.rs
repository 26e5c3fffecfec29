//! The tenancy and access boundary.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::ProjectId;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    pub id: ProjectId,
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$")]
    pub handle: String,
    pub name: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
