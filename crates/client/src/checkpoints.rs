//! Checkpoints and forks.

use serde::{Deserialize, Serialize};
use stead_domain::checkpoint::{Checkpoint, ForkRequest, NewCheckpoint, RestoreRequest};
use stead_domain::environment::Environment;
use stead_domain::ids::{CheckpointId, EnvironmentId};
use stead_domain::page::Page;

use crate::{Client, ListOptions, Request, Result};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Forks {
    pub items: Vec<Environment>,
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

    /// However long it takes until what runs has ended.
    pub async fn restore_checkpoint(&self, environment: EnvironmentId, id: CheckpointId, request: &RestoreRequest) -> Result<Environment> {
        let path = self.environment_path(environment, &format!("/checkpoints/{id}/restore"));
        self.json(Request::post(path).json(request)?.within(None)).await
    }

    pub async fn fork_environment(&self, environment: EnvironmentId, request: &ForkRequest) -> Result<Forks> {
        self.json(Request::post(self.environment_path(environment, "/fork")).json(request)?.within(None)).await
    }
}
