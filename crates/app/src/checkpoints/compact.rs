//! Many layers become one, behind what goes on, long before there are more than the kernel takes.

use stead_domain::checkpoint::{OnRunning, Stack};
use stead_domain::environment::Environment;
use stead_domain::ids::{EnvironmentId, LayerId};
use stead_domain::{Code, Error, Result};
use stead_store::checkpoints;

use super::seal::{locked, unchanged};
use crate::App;

/// So many sealed layers below a sandbox are made one.
const MANY: usize = 32;
/// With so many nothing is sealed any more: the kernel takes 500.
pub(super) const MOST: usize = 400;

impl App {
    /// After something was sealed. Whoever seals does not wait for it.
    pub(super) fn compact_behind(&self, environment: &Environment) {
        if environment.stack.below.len() + 1 < MANY {
            return;
        }
        let (app, id) = (self.clone(), environment.id);
        self.tasks.spawn(async move {
            // Once at a time is enough.
            let Some(_once) = app.locks.try_lock(&format!("compact/{id}")) else { return };
            let compacted = tokio::select! {
                () = app.stopping.cancelled() => return,
                compacted = app.compact(id) => compacted,
            };
            match compacted {
                Err(error) if error.code() != Code::EnvironmentBusy => {
                    tracing::warn!(environment = %id, %error, "layers could not be made one yet");
                }
                _ => {}
            }
        });
    }

    /// Makes the sealed layers of an environment one. What checkpoints need of them stays; what nobody else needs goes.
    async fn compact(&self, id: EnvironmentId) -> Result<()> {
        let environment = self.load(id).await?;
        let keeper = self.keeper(&environment)?;
        let below = environment.stack.below.clone();
        if below.len() < MANY {
            return Ok(());
        }
        let merged = LayerId::new(&self.context);
        // Nobody is kept waiting for this. The sandbox's row names them; if it does not any more, this is in vain.
        if !keeper.layers()?.merge(&below, merged, &environment.spec).await? {
            tracing::warn!(environment = %id, "its layers cannot be made one: what they lie over is not there");
            return Ok(());
        }
        let _guard = locked(self, id).await;
        let environment = self.load(id).await?;
        let ground = self.ground(environment.runtime.provider.unwrap_or(environment.provider), environment.runtime.host)?;
        // What is mounted is not taken away from under it.
        let stilled = self.still(&environment, ground.place()?, OnRunning::Busy).await;
        let _kept = self.layers.read().await;
        if stilled.is_err() || !environment.stack.below.ends_with(&below) {
            keeper.layers()?.drop_made(merged).await?;
            return stilled.map(drop);
        }
        keeper.layers()?.place_made(merged).await?;
        let context = self.context.clone();
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let sandbox = unchanged(unit, &environment).await?;
                    let above = &sandbox.stack.below[..sandbox.stack.below.len() - below.len()];
                    let stack = Stack { upper: sandbox.stack.upper, below: above.iter().copied().chain([merged]).collect() };
                    checkpoints::set_stack(unit, sandbox.id, &stack, sandbox.checkpoint_id, context.now()).await?;
                    Ok::<_, Error>(())
                })
            })
            .await?;
        self.drop_layers_behind(Vec::new());
        Ok(())
    }
}
