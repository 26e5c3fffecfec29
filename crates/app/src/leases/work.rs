//! What is to be done with an environment when a lease of it has ended: what its holder asked for (`at_release`), and what its lifetime says.

use stead_domain::checkpoint::{CheckpointReason, Stack};
use stead_domain::definition::AtRelease;
use stead_domain::environment::{CleanupStatus, Environment, EnvironmentStatus, RetentionPolicy};
use stead_domain::ids::{EnvironmentId, LayerId, SandboxId};
use stead_domain::lease::{LeaseEnd, LeaseRecord};
use stead_domain::{Error, Result};
use stead_store::{checkpoints, desks, environments};

use crate::App;
use crate::audit::{Act, record_own};
use crate::environments::begin_destroying;
use crate::processes::SETUP_GONE;

/// After so many failures in a row nobody is let in until somebody has looked at it.
const FAILURES: u64 = 3;

/// Whether anything is to be done when it ends.
pub(super) fn is_wanted(record: &LeaseRecord) -> bool {
    record.of.terms.at_release() != AtRelease::Keep || record.of.terms.reaps
}

impl App {
    /// Does what the leases left to do, in their order. It may have been done before, all of it or a part.
    pub(super) async fn do_work(&self, all: &[Environment], work: &[LeaseRecord], is_takeover: bool) -> Result<()> {
        if is_takeover {
            for environment in all {
                self.save_before_takeover(environment).await;
            }
        }
        for record in work {
            let id = record.of.environment_id;
            let environment = self.load(id).await?;
            if !environment.status.is_live() {
                continue;
            }
            match record.of.terms.at_release() {
                AtRelease::Keep => {}
                AtRelease::Checkpoint => self.checkpoint_by_itself(&environment, CheckpointReason::AtRelease).await?,
                AtRelease::Clean => self.clean(&environment).await?,
                AtRelease::Destroy => self.destroy(id).await?,
            }
            if record.of.terms.reaps && record.of.terms.at_release() != AtRelease::Destroy {
                self.reap(id, record).await?;
            }
        }
        Ok(())
    }

    /// The definition's `checkpoints.before_takeover`. What cannot be sealed stays as it is, and whoever comes is let in all the same.
    async fn save_before_takeover(&self, environment: &Environment) {
        let wanted = environment.spec.checkpoints.as_ref().and_then(|policy| policy.before_takeover) == Some(true);
        if wanted
            && environment.status.is_live()
            && let Err(error) = self.checkpoint_by_itself(environment, CheckpointReason::BeforeTakeover).await
        {
            tracing::warn!(environment = %environment.id, %error, "what a holder left could not be sealed before the next one");
        }
    }

    async fn checkpoint_by_itself(&self, environment: &Environment, reason: CheckpointReason) -> Result<()> {
        let _guard = self.locks.lock(&environment.id.to_string()).await;
        let environment = self.load(environment.id).await?;
        let keeper = self.keeper(&environment)?;
        if !keeper.layers()?.is_written(environment.sandbox_id, &environment.stack).await? {
            return Ok(());
        }
        let checkpoint = self.seal_by_policy(&environment, reason).await?;
        self.bring_to_disk_behind(checkpoint);
        self.drop_beyond(&environment).await
    }

    /// From what nobody knows the end of to what was sealed last. What was there is sealed as well, so that nothing of it is lost.
    pub(super) async fn go_back(&self, environment: &Environment) -> Result<()> {
        let id = environment.id;
        let latest = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(checkpoints::latest(unit, id).await?) })).await?;
        let Some(latest) = latest else { return Ok(()) };
        self.checkpoint_by_itself(environment, CheckpointReason::BeforeTakeover).await?;
        let _guard = self.locks.lock(&id.to_string()).await;
        let _kept = self.layers.read().await;
        let (context, environment) = (self.context.clone(), self.load(id).await?);
        let left = environment.stack.upper_of(environment.sandbox_id);
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let stack = Stack { upper: Some(LayerId::new(&context)), below: latest.layers.clone() };
                    checkpoints::set_stack(unit, environment.sandbox_id, &stack, Some(latest.id), context.now()).await?;
                    environments::set_setup_version(unit, id, latest.setup_version.or(Some(SETUP_GONE))).await?;
                    record_own(unit, &context, own_act(&environment, "environment.restore")).await
                })
            })
            .await?;
        self.drop_layers_behind(vec![left]);
        Ok(())
    }

    /// As it was when it was made: another layer to write to, over nothing. Its setup script runs again.
    async fn clean(&self, environment: &Environment) -> Result<()> {
        let _guard = self.locks.lock(&environment.id.to_string()).await;
        let provider = environment.runtime.provider.unwrap_or(environment.provider);
        let ground = self.ground(provider, environment.runtime.host)?;
        let _stilled = self.still(environment, ground.place()?, stead_domain::checkpoint::OnRunning::Stop).await?;
        let _kept = self.layers.read().await;
        let (context, environment) = (self.context.clone(), self.load(environment.id).await?);
        let left = environment.stack.upper_of(environment.sandbox_id);
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let now = context.now();
                    let stack = Stack { upper: Some(LayerId::new(&context)), below: Vec::new() };
                    checkpoints::set_stack(unit, environment.sandbox_id, &stack, None, now).await?;
                    environments::set_setup_version(unit, environment.id, Some(SETUP_GONE)).await?;
                    record_own(unit, &context, own_act(&environment, "environment.clean")).await
                })
            })
            .await?;
        self.drop_layers_behind(vec![left]);
        Ok(())
    }

    async fn destroy(&self, id: EnvironmentId) -> Result<()> {
        let context = self.context.clone();
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let Some(environment) = environments::lock(unit, id).await? else { return Ok::<_, Error>(()) };
                    record_own(unit, &context, own_act(&environment, "environment.delete")).await?;
                    begin_destroying(unit, &context, environment, None).await
                })
            })
            .await?;
        self.drive(id).await.map(drop)
    }

    /// One whose lifetime is its lease's: it goes, unless its retention policy keeps it for how the lease ended.
    async fn reap(&self, id: EnvironmentId, record: &LeaseRecord) -> Result<()> {
        let succeeded = record.end.as_ref().is_none_or(|end| end.how == LeaseEnd::Released && end.clean);
        let environment = self.load(id).await?;
        let goes = match environment.retention_policy {
            RetentionPolicy::RetainAlways => false,
            RetentionPolicy::DestroyOnSuccess | RetentionPolicy::RetainOnFailure => succeeded,
            RetentionPolicy::Manual => true,
        };
        if goes {
            return self.destroy(id).await;
        }
        let context = self.context.clone();
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let Some(mut environment) = environments::lock(unit, id).await? else { return Ok::<_, Error>(()) };
                    if environment.status == EnvironmentStatus::Retained || !environment.status.may_become(EnvironmentStatus::Retained) {
                        return Ok(());
                    }
                    environment.advance(EnvironmentStatus::Retained)?;
                    environment.cleanup_status = CleanupStatus::Skipped;
                    environment.updated_at = context.now();
                    environments::save(unit, &environment).await?;
                    record_own(unit, &context, own_act(&environment, "environment.retain")).await
                })
            })
            .await
    }

    /// Counts failures in a row; after a few nobody is let in any more.
    pub(super) async fn note_cleaning(&self, sandbox: SandboxId, outcome: &Result<()>) -> Result<()> {
        let cause = outcome.as_ref().err().map(|error| error.message().to_owned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let Some(failures) = desks::cleaning_failures(unit, sandbox).await? else { return Ok::<_, Error>(()) };
                    let now = if cause.is_some() { failures + 1 } else { 0 };
                    if now != failures {
                        desks::note_cleaning(unit, sandbox, now, cause.as_deref().filter(|_| now >= FAILURES)).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Somebody has looked at it: it is tried again, as soon as whoever asks for this has let go of the environment.
    pub(crate) async fn leave_quarantine(&self, sandbox: SandboxId) -> Result<()> {
        let had_failed = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let had_failed = desks::cleaning_failures(unit, sandbox).await?.is_some_and(|failures| failures > 0);
                    if had_failed {
                        desks::note_cleaning(unit, sandbox, 0, None).await?;
                    }
                    Ok::<_, Error>(had_failed)
                })
            })
            .await?;
        if had_failed {
            let app = self.clone();
            self.tasks.spawn(async move {
                if let Err(error) = app.carry(sandbox).await {
                    tracing::warn!(%sandbox, %error, cause = error.internal_cause(), "what a lease left is not settled yet");
                }
            });
        }
        Ok(())
    }
}

fn own_act<'a>(environment: &Environment, action: &'a str) -> Act<'a> {
    Act {
        project: environment.project_id,
        action,
        target_type: "environment",
        target_id: environment.id.to_string(),
        details: vec![("name", environment.name.clone().into()), ("cause", "lease".into())],
    }
}
