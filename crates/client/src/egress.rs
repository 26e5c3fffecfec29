//! What left an environment, or wanted to.

use stead_domain::egress::EgressEntry;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::Page;

use crate::{Client, ListOptions, Request, Result};

impl Client {
    /// Oldest first; the latest so many with `tail`. The reply says where to go on, also when nothing more is there yet.
    pub async fn list_egress(&self, id: EnvironmentId, tail: Option<u32>, options: &ListOptions) -> Result<Page<EgressEntry>> {
        self.json(options.apply(Request::get(self.environment_path(id, "/egress")).query("tail", tail))).await
    }
}
