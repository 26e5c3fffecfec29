//! What an environment's files are made ready with, and what it wrote beside its workspace.

use stead_domain::changes::{ChangeSelection, FileChange, SettledChanges};
use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::Page;
use stead_domain::process_request::SetupRequest;

use crate::{Client, ListOptions, Request, Result};

impl Client {
    /// Runs the setup script, however long that takes; once more with `again`.
    pub async fn set_up_environment(&self, id: EnvironmentId, again: bool) -> Result<Environment> {
        self.json(Request::post(self.environment_path(id, "/setup")).json(&SetupRequest { again })?.within(None)).await
    }

    /// What was changed, only at and below `path` if there is one.
    pub async fn list_changes(&self, id: EnvironmentId, path: Option<&str>, options: &ListOptions) -> Result<Page<FileChange>> {
        self.json(options.apply(Request::get(self.environment_path(id, "/changes")).query("path", path))).await
    }

    /// Carries changes into the workspace, however long that takes.
    pub async fn keep_changes(&self, id: EnvironmentId, which: &ChangeSelection) -> Result<SettledChanges> {
        self.json(Request::post(self.environment_path(id, "/changes/keep")).json(which)?.within(None)).await
    }

    /// Throws changes away.
    pub async fn drop_changes(&self, id: EnvironmentId, which: &ChangeSelection) -> Result<SettledChanges> {
        self.json(Request::post(self.environment_path(id, "/changes/drop")).json(which)?.within(None)).await
    }
}
