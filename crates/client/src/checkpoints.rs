//! Checkpoints and forks.

use serde::{Deserialize, Serialize};
use stead_domain::archive::{ExportRequest, ImportRequest, MEDIA_TYPE};
use stead_domain::checkpoint::{Checkpoint, ForkRequest, NewCheckpoint, RestoreRequest};
use stead_domain::checkpoint_diff::Differences;
use stead_domain::environment::Environment;
use stead_domain::files::FilePath;
use stead_domain::ids::{CheckpointId, EnvironmentId};
use stead_domain::page::Page;

use crate::{Client, Download, ListOptions, Request, Result, Upload};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forks {
    pub items: Vec<Environment>,
}

#[derive(Clone, Debug, Default)]
pub struct DiffQuery {
    /// What is there now when it is none.
    pub to: Option<CheckpointId>,
    /// Only this file.
    pub path: Option<String>,
    /// Also the lines that differ.
    pub text: bool,
}

impl Client {
    /// However long it takes until it is as durable as is asked for.
    pub async fn create_checkpoint(&self, environment: EnvironmentId, new: &NewCheckpoint) -> Result<Checkpoint> {
        self.json(Request::post(self.environment_path(environment, "/checkpoints")).json(new)?.within(None)).await
    }

    pub async fn list_checkpoints(&self, environment: EnvironmentId, options: &ListOptions) -> Result<Page<Checkpoint>> {
        self.json(options.apply(Request::get(self.environment_path(environment, "/checkpoints")))).await
    }

    pub async fn get_checkpoint(&self, environment: EnvironmentId, id: CheckpointId) -> Result<Checkpoint> {
        self.json(Request::get(self.environment_path(environment, &format!("/checkpoints/{id}")))).await
    }

    pub async fn delete_checkpoint(&self, environment: EnvironmentId, id: CheckpointId) -> Result<()> {
        self.request(Request::delete(self.environment_path(environment, &format!("/checkpoints/{id}")))).await.map(drop)
    }

    /// What differs from a checkpoint to another one, or to what is there now.
    pub async fn diff_checkpoint(
        &self,
        environment: EnvironmentId,
        id: CheckpointId,
        query: &DiffQuery,
        options: &ListOptions,
    ) -> Result<Differences> {
        let request = Request::get(self.environment_path(environment, &format!("/checkpoints/{id}/diff")))
            .query("to", query.to.map(|to| to.to_string()))
            .query("path", query.path.as_deref())
            .query("text", query.text.then_some(true));
        self.json(options.apply(request.within(None))).await
    }

    /// However long it takes until what runs has ended.
    pub async fn restore_checkpoint(&self, environment: EnvironmentId, id: CheckpointId, request: &RestoreRequest) -> Result<Environment> {
        let path = self.environment_path(environment, &format!("/checkpoints/{id}/restore"));
        self.json(Request::post(path).json(request)?.within(None)).await
    }

    /// An environment as an archive, from the beginning to the end: it cannot be taken up in the middle.
    pub async fn export_environment(&self, environment: EnvironmentId, request: &ExportRequest) -> Result<Download<'_>> {
        let asked = Request::post(self.environment_path(environment, "/export")).json(request)?.within(None);
        Download::open(self, asked.header("accept", MEDIA_TYPE)?, FilePath::found("the archive")).await
    }

    /// Makes an environment out of an archive. Sent again with the same key it is not made again.
    pub async fn import_environment(&self, request: &ImportRequest, key: &str, archive: Upload) -> Result<Environment> {
        let asked = Request::post(self.project_path("/environments/import"))
            .query("name", request.name.as_deref())
            .query("allow_unenforced", request.allow_unenforced.then_some(true))
            .query("allow_mounts", request.allow_mounts.then_some(true))
            .header("content-type", MEDIA_TYPE)?
            .header("idempotency-key", key)?;
        self.parse(&self.upload(&asked, archive).await?)
    }

    pub async fn fork_environment(&self, environment: EnvironmentId, request: &ForkRequest) -> Result<Forks> {
        self.json(Request::post(self.environment_path(environment, "/fork")).json(request)?.within(None)).await
    }
}
