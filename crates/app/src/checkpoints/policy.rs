//! Checkpoints that nobody asks for: every so often while something changes, and no more of them than the definition keeps.

use std::sync::PoisonError;

use stead_domain::checkpoint::{Checkpoint, CheckpointReason, OnRunning};
use stead_domain::environment::{Environment, EnvironmentStatus};
use stead_domain::ids::{CheckpointId, EnvironmentId};
use stead_domain::page::{MAXIMUM_LIMIT, PageRequest};
use stead_domain::{Code, Error, Result};
use stead_store::{checkpoints, environments};

use super::seal::Wanted;
use crate::App;
use crate::audit::{Act, record_own};

/// How many automatic ones are kept when the definition does not say.
const KEPT: u32 = 10;

impl App {
    /// Looks at every environment of this host whose definition asks for checkpoints at intervals.
    pub async fn make_due_checkpoints(&self) -> Result<()> {
        let host = self.host;
        let found =
            self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(environments::with_intervals(unit, host).await?) })).await?;
        for id in found {
            if let Err(error) = self.make_if_due(id).await {
                tracing::warn!(environment = %id, %error, "the checkpoints that it is to have could not be looked after");
            }
        }
        Ok(())
    }

    async fn make_if_due(&self, id: EnvironmentId) -> Result<()> {
        // Who works on it now is not waited for.
        let Some(_guard) = self.locks.try_lock(&id.to_string()) else { return Ok(()) };
        let environment = self.load(id).await?;
        let Some(every) = environment.spec.checkpoints.as_ref().and_then(|policy| policy.every) else { return Ok(()) };
        if !matches!(environment.status, EnvironmentStatus::Ready | EnvironmentStatus::Running) {
            return Ok(());
        }
        let latest = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(checkpoints::latest(unit, id).await?) })).await?;
        let since = latest.as_ref().map_or(environment.created_at, |latest| latest.created_at);
        let keeper = self.keeper(&environment)?;
        let due = self.context.now().since(since).as_millis() >= u128::from(every.as_millis());
        if !due || !keeper.layers()?.is_written(environment.sandbox_id, &environment.stack).await? {
            return Ok(());
        }
        match self.seal_by_policy(&environment, CheckpointReason::Interval).await {
            Ok(checkpoint) => {
                self.skipped.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                self.bring_to_disk_behind(checkpoint);
                self.drop_beyond(&environment).await
            }
            Err(error) if matches!(error.code(), Code::EnvironmentBusy | Code::CheckpointUnsupported) => {
                self.say_skipped(&environment, &error).await
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn seal_by_policy(&self, environment: &Environment, reason: CheckpointReason) -> Result<Checkpoint> {
        let provider = environment.runtime.provider.unwrap_or(environment.provider);
        let ground = self.ground(provider, environment.runtime.host)?;
        let (keeper, place) = (self.keeper(environment)?, ground.place()?);
        self.check_sealable(environment, place).await?;
        let _stilled = self.still(environment, place, OnRunning::Busy).await?;
        let _kept = self.layers.read().await;
        let environment = self.load(environment.id).await?;
        let wanted = Wanted { id: CheckpointId::new(&self.context), name: None, reason, caller: None, right: None };
        self.seal(&environment, &keeper, wanted).await
    }

    /// Deletes the oldest automatic ones that are more than the definition keeps. What others need of them stays.
    pub(super) fn drop_beyond_behind(&self, environment: &Environment) {
        let (app, environment) = (self.clone(), environment.clone());
        self.tasks.spawn(async move {
            if let Err(error) = app.drop_beyond(&environment).await {
                tracing::warn!(environment = %environment.id, %error, "old checkpoints could not be deleted yet");
            }
        });
    }

    pub(crate) async fn drop_beyond(&self, environment: &Environment) -> Result<()> {
        let keep = environment.spec.checkpoints.as_ref().and_then(|policy| policy.keep).unwrap_or(KEPT) as usize;
        let (id, context) = (environment.id, self.context.clone());
        let dropped = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let (mut automatic, mut after) = (Vec::new(), None);
                    loop {
                        let rows = checkpoints::list(unit, id, &PageRequest { limit: MAXIMUM_LIMIT, after }).await?;
                        let Some(last) = rows.last() else { break };
                        after = Some(last.id.to_string());
                        automatic.extend(rows.into_iter().filter(|row| row.reason.is_automatic()));
                    }
                    let mut layers = Vec::new();
                    for checkpoint in automatic.into_iter().skip(keep) {
                        checkpoints::delete(unit, checkpoint.id, context.now()).await?;
                        layers.extend(checkpoint.layers);
                    }
                    Ok::<_, Error>(layers)
                })
            })
            .await?;
        if !dropped.is_empty() {
            self.drop_layers_behind(dropped);
        }
        Ok(())
    }

    /// In the audit, once for as long as it is so.
    async fn say_skipped(&self, environment: &Environment, error: &Error) -> Result<()> {
        if !self.skipped.lock().unwrap_or_else(PoisonError::into_inner).insert(environment.id) {
            return Ok(());
        }
        tracing::info!(environment = %environment.id, %error, "a checkpoint that was due was skipped");
        let (context, project, target_id) = (self.context.clone(), environment.project_id, environment.id.to_string());
        let details = vec![("name", environment.name.clone().into()), ("cause", error.message().into())];
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let act = Act { project, action: "environment.checkpoint_skipped", target_type: "environment", target_id, details };
                    record_own(unit, &context, act).await
                })
            })
            .await
    }
}
