//! Who the server takes the caller for.

use serde::{Deserialize, Serialize};
use stead_domain::ids::PrincipalId;
use stead_domain::principal::PrincipalKind;

use crate::{Client, Request, Result};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    pub principal_id: PrincipalId,
    pub name: String,
    pub kind: PrincipalKind,
    pub operator: bool,
    /// The handle of the project that the key is pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

impl Client {
    pub async fn identity(&self) -> Result<Identity> {
        self.json(Request::get("/v1/identity")).await
    }
}
