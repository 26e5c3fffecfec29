//! Holds off everybody with an earlier warrant than one that was just written down, at whoever is awake. Whoever wakes later reads what was
//! written down.

use std::sync::Arc;
use std::time::Duration;

use stead_domain::ids::EnvironmentId;
use tokio::task::spawn_blocking;

use super::stewards::{LEAVING, MOMENT, broken};
use super::{Stewards, Trouble};
use crate::protocol::{Answer, Call};
use crate::steward_lock;
use crate::warrant::Warrant;

impl Stewards {
    /// Returns when nothing begins in an environment under an earlier warrant, and with `stop` nothing runs that did. Whoever does not answer for so long is not taken to
    /// be gone: that is an error, and the same may be asked again.
    pub async fn barrier(&self, environment: EnvironmentId, warrant: Warrant, stop: bool, patience: Duration) -> Result<(), Trouble> {
        let silent =
            "the keeper of the environment does not answer; it may be stopped, or somebody inside waits for a disk and cannot be ended";
        tokio::time::timeout(patience, self.hold_off(environment, warrant, stop))
            .await
            .unwrap_or_else(|_| Err(Trouble::Broken(silent.to_owned())))
    }

    /// Ends a steward that does not answer, with everything inside. Returns when all of it is gone.
    pub async fn end_by_force(&self, environment: EnvironmentId) -> Result<(), Trouble> {
        for _ in 0..LEAVING {
            self.kill_foreign(environment).await?;
            if self.clear_left(environment).await? {
                return Ok(());
            }
        }
        Err(Trouble::Broken("somebody makes the environment anew again and again".to_owned()))
    }

    async fn hold_off(&self, environment: EnvironmentId, warrant: Warrant, stop: bool) -> Result<(), Trouble> {
        loop {
            let barrier = Call::Barrier { warrant, stop };
            let connection = match self.find(environment).await {
                // Those of other versions take nothing new, whoever asks.
                Err(Trouble::Foreign { .. }) if !stop => return Ok(()),
                Ok(Some(connection)) if !stop && !connection.understands(&barrier) => return Ok(()),
                Err(Trouble::Foreign { .. }) => {
                    self.kill_foreign(environment).await?;
                    continue;
                }
                Err(trouble) => return Err(trouble),
                Ok(None) if !stop => return Ok(()),
                Ok(None) if self.clear_left(environment).await? => return Ok(()),
                Ok(None) => continue,
                Ok(Some(connection)) => connection,
            };
            // One that does not know of warrants cannot go on with what it keeps.
            let understood = connection.understands(&barrier);
            match connection.call(if understood { barrier } else { Call::Sleep { at_once: true } }, &[]).await {
                Ok(Answer::Done) if understood => return Ok(()),
                // It is looked for until it has let go of its lock, so that nobody who comes now meets it.
                Ok(_) | Err(Trouble::Gone) => tokio::time::sleep(MOMENT).await,
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Has removed what a steward left that was killed, when everything inside has ended with it; false when another one is there by now.
    pub(super) async fn clear_left(&self, environment: EnvironmentId) -> Result<bool, Trouble> {
        let directory = self.directories().run(environment);
        for _ in 0..LEAVING {
            if !directory.exists() {
                return Ok(true);
            }
            if steward_lock::is_held(&directory).map_err(broken)? {
                return Ok(false);
            }
            let (spawner, left) = (Arc::clone(self.shared_spawner()), directory.clone());
            spawn_blocking(move || spawner.clear(left)).await.map_err(broken)?.map_err(broken)?;
            tokio::time::sleep(MOMENT).await;
        }
        Err(Trouble::Broken(format!("what a killed keeper left in {} has not ended, or cannot be removed", directory.display())))
    }
}
