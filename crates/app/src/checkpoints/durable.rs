//! From sealed to durable.

use std::collections::HashSet;

use stead_domain::checkpoint::{Checkpoint, CheckpointState};
use stead_domain::ids::LayerId;
use stead_domain::{Error, Result};
use stead_store::checkpoints;

use crate::App;

pub(super) const TORN: &str = "the host went down before it was on the disk: what was written last may be missing";

impl App {
    /// Returns when it is on the disk, or can never be.
    pub(super) async fn bring_to_disk(&self, checkpoint: Checkpoint) -> Result<Checkpoint> {
        if checkpoint.state == CheckpointState::Durable || checkpoint.message.is_some() {
            return Ok(checkpoint);
        }
        let (project, id, parent) = (checkpoint.project_id, checkpoint.id, checkpoint.parent_id);
        let above = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    Ok::<_, Error>(match parent {
                        Some(parent) => checkpoints::find(unit, project, parent).await?,
                        None => None,
                    })
                })
            })
            .await?;
        // What it has in common with one that is durable is on the disk already.
        let known: HashSet<LayerId> =
            above.into_iter().filter(|above| above.state == CheckpointState::Durable).flat_map(|above| above.layers).collect();
        let layers: Vec<LayerId> = checkpoint.layers.iter().filter(|layer| !known.contains(layer)).copied().collect();
        let environment = self.load(checkpoint.environment_id).await?;
        let whole = self.keeper(&environment)?.layers()?.make_durable(&layers, checkpoint.sealed_in.as_deref()).await?;
        let context = self.context.clone();
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    if whole {
                        checkpoints::mark_durable(unit, id, context.now()).await?;
                    } else {
                        checkpoints::mark_torn(unit, id, TORN).await?;
                    }
                    // One that was deleted meanwhile is answered as it was.
                    Ok::<_, Error>(checkpoints::find(unit, project, id).await?.unwrap_or(checkpoint))
                })
            })
            .await
    }

    pub(crate) fn bring_to_disk_behind(&self, checkpoint: Checkpoint) {
        let app = self.clone();
        self.tasks.spawn(async move {
            let id = checkpoint.id;
            if let Err(error) = app.bring_to_disk(checkpoint).await {
                tracing::warn!(checkpoint = %id, %error, "a checkpoint is not on the disk yet; it is tried again");
            }
        });
    }

    /// Those that a server left sealed.
    pub(crate) async fn bring_the_rest_to_disk(&self) -> Result<()> {
        let host = self.host;
        let rows =
            self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(checkpoints::not_durable(unit, host).await?) })).await?;
        for checkpoint in rows {
            let id = checkpoint.id;
            if let Err(error) = self.bring_to_disk(checkpoint).await {
                tracing::warn!(checkpoint = %id, %error, "a checkpoint is not on the disk yet; it is tried again");
            }
        }
        Ok(())
    }
}
