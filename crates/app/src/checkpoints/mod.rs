//! Checkpoints: points in the files of a sandbox, to go back to and to begin other environments from.
//!
//! What a sandbox sees of its files is a list of layers in its row. To seal one is to write down that it is no longer the uppermost, while
//! nothing runs; to restore or to fork is to write down another list. So each is one commit, and there is nothing between two states.

mod compact;
mod create;
mod diff;
mod durable;
mod export;
mod fork;
mod freeze;
mod import;
mod pins;
mod policy;
mod remove;
mod restore;
mod seal;

pub use diff::DiffQuery;
pub use export::Export;
pub use fork::Forks;
pub(crate) use pins::Pins;
pub(crate) use remove::Unneeded;

use std::sync::Arc;

use stead_domain::checkpoint::Checkpoint;
use stead_domain::environment::Environment;
use stead_domain::ids::{CheckpointId, EnvironmentId};
use stead_domain::page::{Page, PageRequest};
use stead_domain::{Code, Error, Result};
use stead_store::checkpoints;
use tokio::sync::OwnedSemaphorePermit;

use crate::provider::{Layers, Provider};
use crate::{App, Entered};

pub(crate) fn unknown(id: CheckpointId) -> Error {
    Error::not_found("checkpoint", id).suggestion("`stead checkpoint list ENVIRONMENT` shows them")
}

/// Archives that are made or taken in at a time.
pub(crate) const MOST_ARCHIVES: usize = 32;

/// A provider that keeps files in layers.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<dyn Provider>);

impl Keeper {
    pub(crate) fn layers(&self) -> Result<&dyn Layers> {
        self.0.layers().ok_or_else(|| {
            Error::new(Code::CheckpointUnsupported, format!("provider `{}` makes no checkpoints", self.0.name()))
                .suggestion("`stead provider list` shows what each can do")
        })
    }
}

impl App {
    pub async fn list_checkpoints(&self, entered: &Entered, id: EnvironmentId, page: PageRequest) -> Result<Page<Checkpoint>> {
        self.get_environment(entered, id).await?;
        let limit = page.limit;
        let rows = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(checkpoints::list(unit, id, &page).await?) })).await?;
        Ok(Page::new(rows, limit, |checkpoint| checkpoint.id.to_string()))
    }

    pub async fn get_checkpoint(&self, entered: &Entered, environment: EnvironmentId, id: CheckpointId) -> Result<Checkpoint> {
        self.get_environment(entered, environment).await?;
        let found = self.find_checkpoint(entered, id).await?;
        if found.environment_id == environment { Ok(found) } else { Err(unknown(id)) }
    }

    /// One of the project, of whichever environment.
    pub(crate) async fn find_checkpoint(&self, entered: &Entered, id: CheckpointId) -> Result<Checkpoint> {
        let project = entered.project;
        let found =
            self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(checkpoints::find(unit, project, id).await?) })).await?;
        found.ok_or_else(|| unknown(id))
    }

    /// Room for one more archive.
    fn archive_slot(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.archives).try_acquire_owned().map_err(|_| {
            Error::new(Code::ServiceUnavailable, format!("{MOST_ARCHIVES} archives are on their way already"))
                .suggestion("try again when one of them has arrived")
        })
    }

    pub(crate) fn keeper(&self, environment: &Environment) -> Result<Keeper> {
        self.check_host_id(environment.runtime.host)?;
        let keeper = Keeper(Arc::clone(self.providers.serving(environment.runtime.provider.unwrap_or(environment.provider))?));
        keeper.layers()?;
        Ok(keeper)
    }
}
