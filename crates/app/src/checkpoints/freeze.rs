//! A checkpoint beside what runs: everything stands still while the layer that it writes to is copied, and goes on.
//!
//! The copy becomes the sealed layer, and the environment keeps the layers that it has. Nobody names the copy before the commit; whoever is
//! cut off before leaves one that the next server removes, and whoever keeps the environment lets it go on when nobody is there any more.

use std::time::Duration;

use stead_domain::Result;
use stead_domain::checkpoint::Checkpoint;
use stead_domain::environment::Environment;
use stead_domain::ids::LayerId;

use super::seal::{Sealing, Stilled, Wanted};
use crate::App;
use crate::checkpoints::Keeper;
use crate::patience::within;
use crate::place::{Place, PlaceError, Still};

/// A pause that programs can take for one of a busy machine. A longer one would cost them connections that others give up on.
const LONGEST: Duration = Duration::from_secs(30);

impl App {
    /// Seals a copy of what is there now. The caller holds the lock on the environment, and its gates; nothing else has been done to it.
    pub(super) async fn seal_frozen(
        &self,
        environment: &Environment,
        place: &dyn Place,
        keeper: &Keeper,
        stilled: &Stilled,
        wanted: Wanted,
    ) -> Result<Checkpoint> {
        let copy = LayerId::new(&self.context);
        let copied = self.copy_frozen(environment, place, keeper, stilled, copy).await;
        if copied.is_err()
            && let Err(error) = self.bury(place, stilled).await
        {
            tracing::warn!(environment = %environment.id, %error, "what was left of a place could not be cleared away yet");
        }
        let outcome = match copied {
            Ok(sealing) => self.seal_copy(environment, keeper, copy, sealing, wanted).await,
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            // Placed or not: what no row names is nobody's.
            if let Err(error) = keeper.layers()?.drop_made(copy).await {
                tracing::warn!(layer = %copy, %error, "a copy that nobody needs could not be removed yet; the next server does it");
            }
            self.drop_layers_behind(Vec::new());
        }
        outcome
    }

    async fn copy_frozen(
        &self,
        environment: &Environment,
        place: &dyn Place,
        keeper: &Keeper,
        stilled: &Stilled,
        copy: LayerId,
    ) -> Result<Sealing> {
        let layer = self.layer_to_seal(environment, keeper).await?;
        let mut still: Vec<Box<dyn Still>> = Vec::new();
        for sharer in &stilled.all {
            still.extend(within(place.freeze(*sharer, LONGEST)).await?);
        }
        // What is beside the workspace was looked for while everything ran.
        let mut outcome = self.check_sealable(environment, place).await;
        if let (Ok(()), Some(layer)) = (&outcome, layer) {
            outcome = match tokio::time::timeout(LONGEST, keeper.layers()?.copy(layer, copy)).await {
                Ok(copied) => copied.map_err(Into::into),
                Err(_) => Err(too_long().into()),
            };
        }
        for one in still {
            // Each of them goes on, whatever came of the others.
            let thawed = within(one.thaw()).await.map_err(Into::into);
            outcome = outcome.and(thawed);
        }
        outcome.map(|()| if layer.is_some() { Sealing::Copy(copy) } else { Sealing::Nothing })
    }

    /// Whoever was killed that kept one of them took along what runs inside, unless it still stands there and cannot hear that.
    async fn bury(&self, place: &dyn Place, stilled: &Stilled) -> Result<()> {
        for sharer in &stilled.all {
            if place.activity(*sharer).await?.is_none() {
                self.lay_down(place, *sharer, true).await?;
            }
        }
        Ok(())
    }

    async fn seal_copy(
        &self,
        environment: &Environment,
        keeper: &Keeper,
        copy: LayerId,
        sealing: Sealing,
        wanted: Wanted,
    ) -> Result<Checkpoint> {
        let layers = keeper.layers()?;
        // From here on it has a name that somebody could take for nobody's.
        let _kept = self.layers.read().await;
        let sealed = match sealing {
            Sealing::Copy(_) => {
                layers.place_made(copy).await?;
                copy
            }
            _ => environment.stack.below.first().copied().unwrap_or(copy),
        };
        let sealed_in = layers.seal(sealed).await?;
        self.write_sealed(environment, wanted, sealed_in, sealing).await
    }
}

fn too_long() -> PlaceError {
    PlaceError::NeedsStop(format!(
        "there is more to copy than can be in {} seconds, and so long nothing is to stand still",
        LONGEST.as_secs()
    ))
}
