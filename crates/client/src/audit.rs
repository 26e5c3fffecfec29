//! The record of who changed what in the client's project.

use stead_domain::audit::AuditRecord;
use stead_domain::page::Page;

use crate::{Client, ListOptions, Request, Result};

#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    pub action: Option<String>,
    pub target_id: Option<String>,
}

impl Client {
    pub async fn list_audit(&self, filter: &AuditFilter, options: &ListOptions) -> Result<Page<AuditRecord>> {
        let request = Request::get(self.project_path("/audit"))
            .query("action", filter.action.as_deref())
            .query("target_id", filter.target_id.as_deref());
        self.json(options.apply(request)).await
    }
}
