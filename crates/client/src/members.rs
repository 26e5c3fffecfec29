//! Members of the client's project.

use serde::Serialize;
use serde_json::json;
use stead_domain::ids::PrincipalId;
use stead_domain::page::Page;
use stead_domain::principal::{Member, PrincipalKind, Role};

use crate::{Client, ListOptions, Request, Result};

/// Somebody new by name, or a principal that exists by its id.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum NewMember {
    Named { name: String, kind: PrincipalKind, role: Role },
    Known { principal_id: PrincipalId, role: Role },
}

impl Client {
    pub async fn list_members(&self, options: &ListOptions) -> Result<Page<Member>> {
        self.json(options.apply(Request::get(self.project_path("/members")))).await
    }

    pub async fn add_member(&self, member: &NewMember) -> Result<Member> {
        self.json(Request::post(self.project_path("/members")).json(member)?).await
    }

    pub async fn set_role(&self, principal: PrincipalId, role: Role) -> Result<Member> {
        self.json(Request::patch(self.project_path(&format!("/members/{principal}"))).json(&json!({ "role": role }))?).await
    }

    pub async fn remove_member(&self, principal: PrincipalId) -> Result<()> {
        self.request(Request::delete(self.project_path(&format!("/members/{principal}")))).await.map(drop)
    }
}
