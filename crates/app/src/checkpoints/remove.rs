//! Delete a checkpoint, and remove the layers that nobody needs any more.

use stead_domain::ids::{CheckpointId, EnvironmentId, LayerId};
use stead_domain::{Error, Result};
use stead_store::checkpoints;

use super::seal::act;
use super::unknown;
use crate::audit::record;
use crate::{App, Entered};

impl App {
    pub async fn delete_checkpoint(&self, entered: &Entered, environment: EnvironmentId, id: CheckpointId) -> Result<()> {
        let found = self.get_environment(entered, environment).await?;
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

    /// Removes those of these layers that nobody needs, without anybody waiting for it.
    pub(crate) fn drop_layers_behind(&self, layers: Vec<LayerId>) {
        let app = self.clone();
        self.tasks.spawn(async move {
            if let Err(error) = app.drop_layers(Some(layers)).await {
                tracing::warn!(%error, "layers that nobody needs could not be removed yet; the janitor does it");
            }
        });
    }

    /// Removes layers that neither a sandbox nor a checkpoint needs: of these, or of all that there are. What was made before a backup was
    /// restored may hold somebody's work, and stays. Answers how many went.
    pub(crate) async fn drop_layers(&self, which: Option<Vec<LayerId>>) -> Result<u64> {
        let restored_at = self.restored_at().await?;
        self.drop_layers_but(which, |layer| restored_at.is_some_and(|restored_at| layer.made_at() <= restored_at)).await
    }

    pub(crate) async fn drop_layers_but(&self, which: Option<Vec<LayerId>>, spared: impl Fn(&LayerId) -> bool) -> Result<u64> {
        let mut count = 0;
        for provider in self.providers.all() {
            let Some(layers) = provider.layers() else { continue };
            // Nobody writes down a need for one meanwhile.
            let _alone = self.layers.write().await;
            let there = match &which {
                Some(which) => which.clone(),
                None => layers.list().await?,
            };
            if there.is_empty() {
                continue;
            }
            let host = self.host;
            let used =
                self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(checkpoints::layers_in_use(unit, host).await?) })).await?;
            for layer in there.into_iter().filter(|layer| !used.contains(layer) && !spared(layer)) {
                layers.remove(layer).await?;
                count += 1;
            }
        }
        Ok(count)
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
