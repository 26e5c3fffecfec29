//! From what a row says to what is there: the functions that bring a sandbox to its record's state. Each takes only an id, can be repeated,
//! and does no retries of its own; a notice and a timer call it again.

use std::time::Duration;

use stead_domain::checkpoint::Stack;
use stead_domain::environment::{CleanupStatus, Environment, EnvironmentStatus, ProviderStatus};
use stead_domain::ids::{EnvironmentId, HostId};
use stead_domain::principal::Caller;
use stead_domain::sandbox::{Sandbox, SandboxStatus};
use stead_domain::{Code, Error, Result};
use stead_store::{Unit, environments, leases, sandboxes};

use crate::audit::{Act, record, record_own};
use crate::environments::unknown;
use crate::idempotency::{self, Claim, Outcome};
use crate::provider::{NewSandbox, Resource};
use crate::{App, Entered};

const EVERY: Duration = Duration::from_secs(5);
/// Environments that are driven side by side.
const AT_ONCE: usize = 16;

impl App {
    /// Walks everything that was left between two steps, every few seconds. Requests drive what they make themselves; this is for what they
    /// left.
    pub(crate) async fn run_reconciler(&self) {
        loop {
            if let Err(error) = self.reconcile_unfinished().await {
                tracing::warn!(%error, cause = error.internal_cause(), "the reconciler could not read what is unfinished");
            }
            if !self.pause(EVERY).await {
                return;
            }
        }
    }

    /// One pass over what is unfinished.
    pub async fn reconcile_unfinished(&self) -> Result<()> {
        let (host, context) = (self.host, self.context.clone());
        let (unfinished, alone) = self
            .store
            .read(move |unit| {
                Box::pin(
                    async move { Ok::<_, Error>((environments::unfinished(unit, host).await?, sandboxes::unfinished(unit, host).await?)) },
                )
            })
            .await?;
        // A few at a time: one provider that does not answer keeps the others waiting for no longer than its own patience.
        for some in unfinished.chunks(AT_ONCE) {
            let mut driving = tokio::task::JoinSet::new();
            for id in some.iter().copied() {
                let app = self.clone();
                driving.spawn(async move { app.try_to_drive(id).await });
            }
            driving.join_all().await;
            if self.stopping.is_cancelled() {
                return Ok(());
            }
        }
        for id in alone {
            let Some(_guard) = self.locks.try_lock(&id.to_string()) else { continue };
            if self.stopping.is_cancelled() {
                return Ok(());
            }
            if let Err(error) = self.drive_sandbox_locked(id).await {
                tracing::warn!(sandbox = %id, %error, "not reconciled yet");
            }
        }
        let now = context.now();
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    sandboxes::doom_of_deleted_projects(unit, now).await?;
                    for id in environments::of_deleted_projects(unit).await? {
                        if let Some(environment) = environments::lock(unit, id).await? {
                            crate::environments::begin_destroying(unit, &context, environment, None).await?;
                        }
                    }
                    idempotency::wipe_sealed(unit, now).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Drives one that no request is at, and notes on it why it is not there yet: the next pass begins with those that waited longest.
    async fn try_to_drive(&self, id: EnvironmentId) {
        let Some(_guard) = self.locks.try_lock(&id.to_string()) else { return };
        if let Err(error) = self.drive_locked(id).await {
            tracing::warn!(environment = %id, %error, "not reconciled yet");
            let (context, cause) = (self.context.clone(), error.message().to_owned());
            let noted: Result<()> = self
                .store
                .write(move |unit| {
                    Box::pin(async move {
                        if let Some(mut environment) = environments::lock(unit, id).await? {
                            environment.last_error = Some(cause);
                            environment.updated_at = context.now();
                            environments::save(unit, &environment).await?;
                        }
                        Ok(())
                    })
                })
                .await;
            if let Err(error) = noted {
                tracing::warn!(environment = %id, %error, "the cause could not be noted");
            }
        }
    }

    /// Brings one environment to where its row says it should be.
    pub(crate) async fn drive(&self, id: EnvironmentId) -> Result<Environment> {
        let _guard = self.locks.lock(&id.to_string()).await;
        self.drive_locked(id).await
    }

    /// The same, for who holds the lock on the id.
    pub(crate) async fn drive_locked(&self, id: EnvironmentId) -> Result<Environment> {
        let environment = self.load(id).await?;
        match environment.status {
            EnvironmentStatus::Provisioning => match self.provision(id, None).await {
                // Another host's is not ours to give up.
                Err(error) if !error.is_recoverable() && error.code() != Code::EnvironmentOnOtherHost => self.fail(id, &error).await,
                outcome => outcome,
            },
            EnvironmentStatus::Destroying => {
                self.revoke_tokens_of_environment(id);
                self.remove(id).await
            }
            _ => Ok(environment),
        }
    }

    pub(crate) async fn load(&self, id: EnvironmentId) -> Result<Environment> {
        let found = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(environments::find_any(unit, id).await?) })).await?;
        found.ok_or_else(|| unknown(id))
    }

    pub(crate) async fn load_sandbox(&self, environment: &Environment) -> Result<Sandbox> {
        let id = environment.sandbox_id;
        let found = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(sandboxes::find(unit, id).await?) })).await?;
        found.ok_or_else(|| Error::internal(format!("environment {} has no sandbox row {id}", environment.id)))
    }

    /// Only its own host touches a local sandbox.
    pub(crate) fn check_host(&self, sandbox: &Sandbox) -> Result<()> {
        self.check_host_id(sandbox.host_id)
    }

    pub(crate) fn check_host_id(&self, host: Option<HostId>) -> Result<()> {
        match host {
            Some(host) if host != self.host => Err(Error::new(
                Code::EnvironmentOnOtherHost,
                format!("the sandbox is on host `{host}`, and this server runs on `{}`", self.host),
            )
            .detail("host", host.to_string())
            .suggestion("send the request to the server on that host")),
            _ => Ok(()),
        }
    }

    /// Makes the sandbox and marks both ready; with a caller, the reply to its request commits with it.
    pub(crate) async fn provision(&self, id: EnvironmentId, caller: Option<&Caller>) -> Result<Environment> {
        let environment = self.load(id).await?;
        let sandbox = self.load_sandbox(&environment).await?;
        self.provision_in(id, &environment.name, sandbox, caller).await
    }

    /// The same, for who has just read or written the two rows.
    pub(crate) async fn provision_in(
        &self,
        id: EnvironmentId,
        name: &str,
        sandbox: Sandbox,
        caller: Option<&Caller>,
    ) -> Result<Environment> {
        self.check_host(&sandbox)?;
        let provider = self.providers.serving(sandbox.provider)?;
        let resource = match sandbox.status {
            SandboxStatus::Ready | SandboxStatus::Stopped => None,
            SandboxStatus::Destroying | SandboxStatus::Destroyed => {
                return Err(
                    Error::new(Code::Conflict, "its sandbox has been removed").suggestion("delete the environment and create it again")
                );
            }
            _ => Some(provider.create(&NewSandbox { id: sandbox.id, name: resource_name(name, id) }).await?),
        };
        let (app, context, caller) = (self.clone(), self.context.clone(), caller.cloned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    if let Some(resource) = resource {
                        mark_made(unit, &context, sandbox.id, resource).await?;
                    }
                    let mut environment = environments::lock(unit, id).await?.ok_or_else(|| unknown(id))?;
                    // A delete may have come in between; then it stays that way and the next pass removes what was made.
                    if environment.status == EnvironmentStatus::Provisioning {
                        environment.advance(EnvironmentStatus::Ready)?;
                        environment.last_error = None;
                        environment.last_reconciled_at = Some(context.now());
                        environments::save(unit, &environment).await?;
                    }
                    let environment = app.dress(environment);
                    if let Some(caller) = &caller {
                        idempotency::answer(unit, &context, caller, 201, &environment).await?;
                    }
                    Ok(environment)
                })
            })
            .await
    }

    /// Notes that it could not be made, and why. Reconcile tries again.
    async fn fail(&self, id: EnvironmentId, error: &Error) -> Result<Environment> {
        let (context, cause) = (self.context.clone(), error.message().to_owned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let mut environment = environments::lock(unit, id).await?.ok_or_else(|| unknown(id))?;
                    if environment.status.may_become(EnvironmentStatus::Failed) {
                        environment.advance(EnvironmentStatus::Failed)?;
                        environment.last_error = Some(cause);
                        environment.updated_at = context.now();
                        environments::save(unit, &environment).await?;
                    }
                    Ok(environment)
                })
            })
            .await
    }

    /// Removes the sandbox if it was made for this environment and no other live one uses it; then only the record is left.
    async fn remove(&self, id: EnvironmentId) -> Result<Environment> {
        let environment = self.load(id).await?;
        let mut sandbox = self.load_sandbox(&environment).await?;
        if self.check_host(&sandbox).is_err() {
            // Its name is free and its row says what is to happen; its own host carries it out.
            return Ok(environment);
        }
        // Asleep before its directories go: nothing is taken from under a program that runs, and no mount is left behind.
        if let Err(error) = self.leave_place(&environment, &sandbox).await {
            return self.note_failed_removal(id, &error).await;
        }
        let mut removed = false;
        if sandbox.destroyed_at.is_none() {
            let (context, sandbox_id) = (self.context.clone(), sandbox.id);
            // Claimed under its lock, so that no new environment can join it from here on.
            sandbox =
                self.store.write(move |unit| Box::pin(async move { claim_for_removal(unit, &context, sandbox_id, id).await })).await?;
            if sandbox.status == SandboxStatus::Destroying {
                let destroyed = match self.providers.serving(sandbox.provider) {
                    Ok(provider) => provider.destroy(sandbox.id, sandbox.resource_id.as_deref()).await.map_err(Error::from),
                    Err(error) => Err(error),
                };
                // The intent is written and its name is free; why it is not carried out yet belongs on the record, not in the caller's way.
                if let Err(error) = destroyed {
                    return self.note_failed_removal(id, &error).await;
                }
                removed = true;
            }
        }
        let context = self.context.clone();
        let was_sealed = sandbox.stack != Stack::default() || sandbox.checkpoint_id.is_some();
        let layers = (removed && was_sealed).then(|| sandbox.stack.all(sandbox.id));
        let left = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let now = context.now();
                    if removed {
                        let mut sandbox = locked_sandbox(unit, sandbox.id).await?;
                        sandbox.status = SandboxStatus::Destroyed;
                        sandbox.destroyed_at = Some(now);
                        leases::end_of_sandbox(unit, sandbox.id, now).await?;
                        sandbox.updated_at = now;
                        sandboxes::save(unit, &sandbox).await?;
                    }
                    let mut environment = environments::lock(unit, id).await?.ok_or_else(|| unknown(id))?;
                    if environment.status != EnvironmentStatus::Destroyed {
                        environment.advance(EnvironmentStatus::Destroyed)?;
                        environment.destroyed_at = Some(now);
                        environment.updated_at = now;
                        environment.cleanup_status = if removed { CleanupStatus::Succeeded } else { CleanupStatus::Skipped };
                        environments::save(unit, &environment).await?;
                    }
                    // Read again for what the sandbox's columns now say.
                    environments::find_any(unit, id).await?.ok_or_else(|| unknown(id))
                })
            })
            .await?;
        // Its layers are free, unless others need them: now, and not before the rows say so.
        if let Some(layers) = layers {
            self.drop_layers_behind(layers);
        }
        Ok(left)
    }

    async fn note_failed_removal(&self, id: EnvironmentId, error: &Error) -> Result<Environment> {
        tracing::warn!(environment = %id, %error, "its sandbox could not be removed yet");
        let (context, cause) = (self.context.clone(), error.message().to_owned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let mut environment = environments::lock(unit, id).await?.ok_or_else(|| unknown(id))?;
                    environment.cleanup_status = CleanupStatus::Failed;
                    environment.last_error = Some(cause);
                    environment.updated_at = context.now();
                    environments::save(unit, &environment).await?;
                    Ok(environment)
                })
            })
            .await
    }

    /// Asks the provider how the sandbox is, and adopts, repairs or gives up what it says.
    pub async fn reconcile_environment(&self, entered: &Entered, id: EnvironmentId) -> Result<Outcome<Environment>> {
        self.get_environment(entered, id).await?;
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.reconcile_to_the_end(entered, id).await }).await
    }

    async fn reconcile_to_the_end(&self, entered: Entered, id: EnvironmentId) -> Result<Outcome<Environment>> {
        let _guard = self.locks.lock(&id.to_string()).await;
        // Before anything is written: this server has nothing to say about another host's.
        let environment = self.load(id).await?;
        if environment.destroyed_at.is_none() {
            self.check_host(&self.load_sandbox(&environment).await?)?;
        }
        // Whoever asks for this has looked at it: what could not be cleaned up is tried again, and told of if it fails.
        self.leave_quarantine(environment.sandbox_id).await?;
        let (context, sealer, caller) = (self.context.clone(), self.sealer.clone(), entered.caller.clone());
        let claim = self
            .store
            .write(move |unit| {
                Box::pin(async move {
                    let claim = idempotency::claim(unit, &context, &*sealer, &caller).await?;
                    // A failed one starts over; provisioning what is there finds it again.
                    if !matches!(claim, Claim::Answered(_))
                        && let Some(mut environment) = environments::lock(unit, id).await?
                        && environment.status == EnvironmentStatus::Failed
                    {
                        environment.advance(EnvironmentStatus::Provisioning)?;
                        environment.updated_at = context.now();
                        environments::save(unit, &environment).await?;
                    }
                    Ok::<_, Error>(claim)
                })
            })
            .await?;
        if let Claim::Answered(reply) = claim {
            return Ok(Outcome::Again(reply));
        }
        let environment = self.drive_locked(id).await?;
        if environment.status.is_live() && environment.status != EnvironmentStatus::Failed {
            self.observe(&environment).await?;
        }
        let (app, context, caller) = (self.clone(), self.context.clone(), entered.caller.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let environment = app.dress(environments::find_any(unit, id).await?.ok_or_else(|| unknown(id))?);
                    let details = vec![("status", environment.status.as_str().into())];
                    let act = Act {
                        project: environment.project_id,
                        action: "environment.reconcile",
                        target_type: "environment",
                        target_id: id.to_string(),
                        details,
                    };
                    record(unit, &context, &caller, act).await?;
                    idempotency::answer(unit, &context, &caller, 200, &environment).await?;
                    Ok(Outcome::New(environment))
                })
            })
            .await
    }

    /// Notes what the provider says of a sandbox, on it and on all environments that use it.
    pub(crate) async fn observe(&self, environment: &Environment) -> Result<()> {
        let sandbox = self.load_sandbox(environment).await?;
        self.check_host(&sandbox)?;
        let observation = self.providers.serving(sandbox.provider)?.inspect(&sandbox).await?;
        let context = self.context.clone();
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let now = context.now();
                    let status = ProviderStatus { state: observation.state, observed_at: now, message: observation.message.clone() };
                    sandboxes::observe(unit, sandbox.id, &status).await?;
                    mark_presence(unit, &context, sandbox.id, observation.exists, observation.message.as_deref()).await
                })
            })
            .await
    }
}

/// Marks a sandbox and its environments as orphaned when the provider no longer has it, and takes them back when it has.
pub(crate) async fn mark_presence(
    unit: &mut Unit,
    context: &stead_domain::Context,
    id: stead_domain::ids::SandboxId,
    exists: bool,
    message: Option<&str>,
) -> Result<()> {
    let now = context.now();
    let mut sandbox = locked_sandbox(unit, id).await?;
    let cause = message.unwrap_or("the provider no longer has the sandbox").to_owned();
    match (exists, sandbox.status) {
        (false, SandboxStatus::Ready | SandboxStatus::Stopped) => {
            sandbox.status = SandboxStatus::Orphaned;
            sandbox.last_error = Some(cause.clone());
        }
        (true, SandboxStatus::Orphaned) => {
            sandbox.status = SandboxStatus::Ready;
            sandbox.last_error = None;
        }
        _ => {}
    }
    sandbox.updated_at = now;
    sandboxes::save(unit, &sandbox).await?;
    for environment in environments::of_sandbox(unit, id).await? {
        let Some(mut environment) = environments::lock(unit, environment).await? else { continue };
        let before = environment.status;
        if !exists && before.is_live() && before.may_become(EnvironmentStatus::Orphaned) {
            environment.advance(EnvironmentStatus::Orphaned)?;
            environment.last_error = Some(cause.clone());
        } else if exists && before == EnvironmentStatus::Orphaned {
            environment.advance(EnvironmentStatus::Ready)?;
            environment.last_error = None;
        }
        environment.last_reconciled_at = Some(now);
        if before != environment.status {
            environment.updated_at = now;
            let action = if exists { "environment.adopt" } else { "environment.orphan" };
            let details = vec![("cause", cause.clone().into())];
            let target_id = environment.id.to_string();
            record_own(unit, context, Act { project: environment.project_id, action, target_type: "environment", target_id, details })
                .await?;
        }
        environments::save(unit, &environment).await?;
    }
    Ok(())
}

/// For people who look at the provider's own list.
pub(crate) fn resource_name(environment: &str, id: EnvironmentId) -> String {
    format!("{environment}-{}", id.short())
}

/// Notes what the provider made. A sandbox that was marked for removal meanwhile stays marked.
pub(crate) async fn mark_made(
    unit: &mut Unit,
    context: &stead_domain::Context,
    id: stead_domain::ids::SandboxId,
    resource: Resource,
) -> Result<()> {
    Ok(sandboxes::mark_ready(unit, id, &resource.id, &resource.name, context.now()).await?)
}

pub(crate) async fn locked_sandbox(unit: &mut Unit, id: stead_domain::ids::SandboxId) -> Result<Sandbox> {
    sandboxes::lock(unit, id).await?.ok_or_else(|| Error::internal(format!("there is no sandbox row {id}")))
}

/// Marks the sandbox as going if it was made for this environment and nobody else uses it; else leaves it as it is. One that loses the
/// environment it was made for goes with the last that uses it.
async fn claim_for_removal(
    unit: &mut Unit,
    context: &stead_domain::Context,
    id: stead_domain::ids::SandboxId,
    environment: EnvironmentId,
) -> Result<Sandbox> {
    let mut sandbox = locked_sandbox(unit, id).await?;
    if sandbox.made_for.is_some() && sandbox.status != SandboxStatus::Destroyed {
        let others = environments::of_sandbox(unit, id).await?.into_iter().filter(|other| *other != environment);
        let heir = live_heir(unit, others).await?;
        match heir {
            None => sandbox.status = SandboxStatus::Destroying,
            // Made for the one that still uses it: it goes when that one goes.
            Some(heir) => sandbox.made_for = Some(heir),
        }
        sandbox.updated_at = context.now();
        sandboxes::save(unit, &sandbox).await?;
    }
    Ok(sandbox)
}

async fn live_heir(unit: &mut Unit, others: impl Iterator<Item = EnvironmentId>) -> Result<Option<EnvironmentId>> {
    for other in others {
        if environments::find_any(unit, other).await?.is_some_and(|other| other.status.is_live()) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}
