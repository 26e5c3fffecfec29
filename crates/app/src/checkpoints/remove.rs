//! Delete a checkpoint, and remove the layers that nobody needs any more.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stead_domain::ids::{CheckpointId, EnvironmentId, LayerId};
use stead_domain::{Error, Result};
use stead_store::checkpoints;

use tokio::sync::Notify;

use super::seal::act;
use super::unknown;
use crate::audit::record;
use crate::{App, Entered};

/// How long the next look waits for others who want one.
const GATHER: Duration = Duration::from_millis(500);

/// What may be unneeded, for the one who removes it.
#[derive(Default)]
pub(crate) struct Unneeded {
    layers: Mutex<Vec<LayerId>>,
    noted: Notify,
}

impl App {
    pub async fn delete_checkpoint(&self, entered: &Entered, environment: EnvironmentId, id: CheckpointId) -> Result<()> {
        let found = self.get_environment(entered, environment).await?;
        if found.status.is_live() {
            self.knock(entered, &found).await?;
        }
        let (context, entered) = (self.context.clone(), entered.clone());
        let layers = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let checkpoint = checkpoints::lock(unit, entered.project, id).await?;
                    let checkpoint = checkpoint.filter(|checkpoint| checkpoint.environment_id == environment).ok_or_else(|| unknown(id))?;
                    checkpoints::delete(unit, id, context.now()).await?;
                    record(unit, &context, &entered.caller, act(&found, "environment.delete_checkpoint", &checkpoint)).await?;
                    Ok::<_, Error>(checkpoint.layers)
                })
            })
            .await?;
        self.drop_layers_behind(layers);
        Ok(())
    }

    /// Has layers that nobody needs any more removed, these among them, without anybody waiting for it.
    pub(crate) fn drop_layers_behind(&self, layers: Vec<LayerId>) {
        self.unneeded.layers.lock().unwrap_or_else(PoisonError::into_inner).extend(layers);
        self.unneeded.noted.notify_one();
    }

    /// Removes layers soon after they were said to be unneeded. Many at once are looked at together, because each look goes over all rows.
    pub(crate) async fn run_layer_sweeper(&self) {
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.unneeded.noted.notified() => {}
            }
            let layers = std::mem::take(&mut *self.unneeded.layers.lock().unwrap_or_else(PoisonError::into_inner));
            if let Err(error) = self.drop_layers(&layers).await {
                tracing::warn!(%error, "layers that nobody needs could not be removed yet");
                // The janitor finds those that lie by themselves; these are looked at again with the next ones.
                self.unneeded.layers.lock().unwrap_or_else(PoisonError::into_inner).extend(layers);
            }
            if !self.pause(GATHER).await {
                return;
            }
        }
    }

    /// Removes layers that neither a sandbox nor a checkpoint needs: of those that lie by themselves, and of these. What was made before a
    /// backup was restored may hold somebody's work, and stays. Answers how many went.
    pub async fn drop_layers(&self, besides: &[LayerId]) -> Result<u64> {
        let restored_at = self.restored_at().await?;
        self.drop_layers_but(besides, |layer| restored_at.is_some_and(|restored_at| layer.made_at() <= restored_at)).await
    }

    pub(crate) async fn drop_layers_but(&self, besides: &[LayerId], spared: impl Fn(&LayerId) -> bool) -> Result<u64> {
        let (mut count, mut failure) = (0, None);
        for provider in self.providers.all() {
            let Some(layers) = provider.layers() else { continue };
            // Nobody writes down a need for one meanwhile.
            let _alone = self.layers.write().await;
            let mut there = layers.list().await?;
            there.extend_from_slice(besides);
            if there.is_empty() {
                continue;
            }
            let host = self.host;
            let used =
                self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(checkpoints::layers_in_use(unit, host).await?) })).await?;
            for layer in there.into_iter().filter(|layer| !used.contains(layer) && !spared(layer) && !self.pins.hold(layer)) {
                match layers.remove(layer).await {
                    Ok(()) => count += 1,
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(count),
        }
    }

    /// What a restored backup knows nothing of.
    pub(crate) async fn unknown_layers(&self) -> Result<u64> {
        let Some(restored_at) = self.restored_at().await? else { return Ok(0) };
        let mut count = 0;
        for provider in self.providers.all() {
            let Some(layers) = provider.layers() else { continue };
            let (host, there) = (self.host, layers.list().await?);
            let used =
                self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(checkpoints::layers_in_use(unit, host).await?) })).await?;
            count += there.iter().filter(|layer| !used.contains(layer) && layer.made_at() <= restored_at).count() as u64;
        }
        Ok(count)
    }
}
