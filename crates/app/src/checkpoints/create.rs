//! Create a checkpoint: sealed in one commit, and then on the disk.

use std::sync::Arc;

use stead_domain::checkpoint::{Checkpoint, CheckpointReason, CheckpointState, NewCheckpoint, OnRunning};
use stead_domain::ids::{CheckpointId, EnvironmentId};
use stead_domain::{Error, Result};

use super::seal::{Wanted, locked};
use crate::idempotency::{self, Claim, Outcome, Reply};
use crate::processes::check_usable;
use crate::{App, Entered};

impl App {
    pub async fn create_checkpoint(&self, entered: &Entered, id: EnvironmentId, new: NewCheckpoint) -> Result<Outcome<Checkpoint>> {
        if let Err(error) = new.check() {
            return Err(self.unless_unknown(entered, id, error).await);
        }
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move {
            let (target, first) = match app.begin_checkpoint(&entered).await? {
                Begun::Answered(reply) => return Ok(Outcome::Again(reply)),
                Begun::Here(target) => (target, None),
                Begun::Before(checkpoint) => (checkpoint.id, Some(*checkpoint)),
            };
            let made = match first {
                Some(checkpoint) => Ok(checkpoint),
                None => app.checkpoint_now(&entered, id, target, &new).await,
            };
            let made = match made {
                Ok(checkpoint) if new.wait == Some(CheckpointState::Sealed) => {
                    app.bring_to_disk_behind(checkpoint.clone());
                    Ok(checkpoint)
                }
                Ok(checkpoint) => app.bring_to_disk(checkpoint).await,
                Err(error) => Err(error),
            };
            app.keep_answer(&entered, made).await
        })
        .await
    }

    /// Claims the caller's key, if it brought one, for a checkpoint that is made or was made under it.
    async fn begin_checkpoint(&self, entered: &Entered) -> Result<Begun> {
        let target = CheckpointId::new(&self.context);
        if entered.caller.idempotency.is_none() {
            return Ok(Begun::Here(target));
        }
        let (context, sealer, caller) = (self.context.clone(), self.sealer.clone(), entered.caller.clone());
        let claim = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let claim = idempotency::claim(unit, &context, &*sealer, &caller).await?;
                    if matches!(claim, Claim::New) {
                        idempotency::note_target(unit, &caller, &target.to_string()).await?;
                    }
                    Ok::<_, Error>(claim)
                })
            })
            .await?;
        match claim {
            Claim::New => Ok(Begun::Here(target)),
            Claim::Answered(reply) => Ok(Begun::Answered(reply)),
            Claim::Unfinished(target) => {
                let target: CheckpointId = target.and_then(|target| target.parse().ok()).ok_or_else(idempotency::in_progress)?;
                match self.find_checkpoint(entered, target).await {
                    Ok(checkpoint) => Ok(Begun::Before(Box::new(checkpoint))),
                    // Cut off before anything was sealed, or deleted since: this request makes it.
                    Err(_) => Ok(Begun::Here(target)),
                }
            }
        }
    }

    async fn checkpoint_now(&self, entered: &Entered, id: EnvironmentId, target: CheckpointId, new: &NewCheckpoint) -> Result<Checkpoint> {
        let environment = self.get_environment(entered, id).await?;
        check_usable(&environment)?;
        let right = Arc::new(self.enter(entered, &environment).await?);
        let _guard = locked(self, id).await;
        // Two requests with one key: the other one may have made it meanwhile.
        if let Ok(checkpoint) = self.find_checkpoint(entered, target).await {
            return Ok(checkpoint);
        }
        let (environment, ground) = self.awake_or_not(entered, id).await?;
        check_usable(&environment)?;
        let (keeper, place) = (self.keeper(&environment)?, ground.place()?);
        self.check_sealable(&environment, place).await?;
        let stilled = self.still(&environment, place, new.on_running.unwrap_or(OnRunning::Busy)).await?;
        let caller = Some(entered.caller.clone());
        let wanted = Wanted { id: target, name: new.name.clone(), reason: CheckpointReason::Requested, caller, right: Some(right) };
        // Nobody wrote since it was stilled; who wrote before is seen by reading it again.
        let environment = self.get_environment(entered, id).await?;
        if stilled.runs {
            return self.seal_frozen(&environment, place, &keeper, &stilled, wanted).await;
        }
        let _kept = self.layers.read().await;
        self.seal(&environment, &keeper, wanted).await
    }

    async fn keep_answer(&self, entered: &Entered, made: Result<Checkpoint>) -> Result<Outcome<Checkpoint>> {
        if entered.caller.idempotency.is_some() {
            let (context, caller, reply) = (self.context.clone(), entered.caller.clone(), made.as_ref().ok().cloned());
            self.store
                .write(move |unit| {
                    Box::pin(async move {
                        match &reply {
                            Some(checkpoint) => idempotency::answer(unit, &context, &caller, 201, checkpoint).await,
                            None => idempotency::give_back(unit, &caller).await,
                        }
                    })
                })
                .await?;
        }
        made.map(Outcome::New)
    }
}

enum Begun {
    /// Nothing was made yet under this id.
    Here(CheckpointId),
    /// A request before this one sealed it.
    Before(Box<Checkpoint>),
    Answered(Reply),
}
