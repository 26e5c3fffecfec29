//! Sealing: everybody is out of the way, and one commit gives the sandbox another layer to write to.

use std::sync::Arc;

use stead_domain::checkpoint::{Checkpoint, CheckpointReason, CheckpointState, OnRunning, Stack};
use stead_domain::definition::WorkspaceAccess;
use stead_domain::environment::Environment;
use stead_domain::ids::{CheckpointId, EnvironmentId, LayerId};
use stead_domain::principal::Caller;
use stead_domain::sandbox::Sandbox;
use stead_domain::{Code, Error, Result};
use stead_store::{Unit, checkpoints, environments};
use tokio::sync::OwnedRwLockWriteGuard;

use super::compact::MOST;
use crate::audit::{Act, record, record_own};
use crate::checkpoints::Keeper;
use crate::environments::settled_activity;
use crate::leases::{Office, Right, hold_in};
use crate::place::Place;
use crate::processes::check_usable;
use crate::reconcile::locked_sandbox;
use crate::{App, Premises};

/// What a checkpoint is to be called, and who makes it; nobody: the server by itself.
pub(crate) struct Wanted {
    pub id: CheckpointId,
    pub name: Option<String>,
    pub reason: CheckpointReason,
    pub caller: Option<Caller>,
    /// The caller's, if it needs one.
    pub right: Option<Arc<Right>>,
}

/// An environment, and all who share its sandbox, put to sleep. Nobody wakes one of them, or starts anything, until this is dropped.
pub(crate) struct Stilled {
    _gates: Vec<OwnedRwLockWriteGuard<()>>,
    /// All who share the sandbox.
    pub all: Vec<EnvironmentId>,
    /// Something runs, and was left alone: only with [`OnRunning::Freeze`].
    pub runs: bool,
}

/// What becomes of the layer that was written to.
pub(super) enum Sealing {
    /// It is sealed, and there is another one to write to.
    Upper,
    /// Nothing was written to it.
    Nothing,
    /// It goes on being written to, and a copy of it is sealed.
    Copy(LayerId),
}

impl App {
    /// Puts an environment to sleep, with all who share its sandbox; with [`OnRunning::Freeze`] only if nothing runs in any of them. The caller
    /// holds the lock on its id.
    pub(crate) async fn still(&self, environment: &Environment, place: &dyn Place, on_running: OnRunning) -> Result<Stilled> {
        // In one order, so that two of them never wait for each other.
        let mut gates = Vec::new();
        let all = self.sharers(environment).await?;
        for other in &all {
            gates.push(self.gates.shut(*other).await);
        }
        let mut runs = false;
        for other in &all {
            // What a command left behind in the background counts as well.
            let running = settled_activity(place, *other).await?.map_or(0, |activity| activity.processes + activity.background);
            if running > 0 && on_running == OnRunning::Busy {
                return Err(busy(environment, running));
            }
            runs |= running > 0;
        }
        let runs = runs && on_running == OnRunning::Freeze;
        for other in all.iter().filter(|_| !runs) {
            self.lay_down(place, *other, false).await?;
        }
        Ok(Stilled { _gates: gates, all, runs })
    }

    /// Seals what is there now. The caller has stilled it, and holds `self.layers` for reading.
    pub(crate) async fn seal(&self, environment: &Environment, keeper: &Keeper, wanted: Wanted) -> Result<Checkpoint> {
        if environment.stack.below.len() >= MOST {
            return Err(Error::new(Code::Conflict, "the files lie in too many layers, and they are not made one yet")
                .recoverable(true)
                .suggestion("try again in a while; what runs in the environment keeps them from it"));
        }
        let layer = self.layer_to_seal(environment, keeper).await?;
        let topmost = layer.or_else(|| environment.stack.below.first().copied());
        let sealed_in = keeper.layers()?.seal(topmost.unwrap_or_else(|| LayerId::first_of(environment.sandbox_id))).await?;
        let sealing = if layer.is_some() { Sealing::Upper } else { Sealing::Nothing };
        let sealed = self.write_sealed(environment, wanted, sealed_in, sealing).await?;
        self.compact_behind(environment);
        Ok(sealed)
    }

    pub(super) async fn write_sealed(
        &self,
        environment: &Environment,
        wanted: Wanted,
        sealed_in: String,
        sealing: Sealing,
    ) -> Result<Checkpoint> {
        let (office, environment) = (self.office(), environment.clone());
        self.store.write(move |unit| Box::pin(async move { write(unit, &office, &environment, wanted, sealed_in, sealing).await })).await
    }

    /// The layer that was written to; none when that did not happen since the last one was sealed.
    pub(super) async fn layer_to_seal(&self, environment: &Environment, keeper: &Keeper) -> Result<Option<LayerId>> {
        let upper = environment.stack.upper_of(environment.sandbox_id);
        let (sandbox, stack) = (environment.sandbox_id, &environment.stack);
        let written = stack.below.is_empty() || keeper.layers()?.is_written(sandbox, stack).await?;
        Ok(written.then_some(upper))
    }

    /// Why the files of an environment cannot be sealed, if they cannot.
    pub(crate) async fn check_sealable(&self, environment: &Environment, place: &dyn Place) -> Result<()> {
        if let Some(mount) = environment.spec.bound_workspace() {
            let message =
                format!("the workspace of environment `{}` is `{}`, which others write to as well", environment.name, mount.source);
            return Err(Error::new(Code::CheckpointUnsupported, message).suggestion(
                "make an environment with a workspace of its own (`stead env create`) and copy the files there with `stead cp`",
            ));
        }
        let access = environment.spec.sandbox.as_ref().and_then(|sandbox| sandbox.workspace_access);
        if access == Some(WorkspaceAccess::CopyOnWrite) && self.has_changes(&self.premises(environment)?, place).await? {
            return Err(Error::new(Code::CheckpointUnsupported, "changes lie beside the workspace that are neither kept nor dropped")
                .suggestion("`stead env keep ENVIRONMENT` or `stead env drop ENVIRONMENT` settles them; then try again"));
        }
        Ok(())
    }

    async fn has_changes(&self, premises: &Premises, place: &dyn Place) -> Result<bool> {
        Ok(!place.changes(premises, None, 0, 1).await?.is_empty())
    }
}

async fn write(
    unit: &mut Unit,
    office: &Office,
    environment: &Environment,
    wanted: Wanted,
    sealed_in: String,
    sealing: Sealing,
) -> Result<Checkpoint> {
    let context = &office.context;
    let sandbox = unchanged(unit, environment).await?;
    if let Some(right) = &wanted.right {
        hold_in(unit, office, right).await?;
    }
    let now = context.now();
    let layers = match sealing {
        Sealing::Upper => sandbox.stack.all(sandbox.id),
        Sealing::Nothing => sandbox.stack.below.clone(),
        Sealing::Copy(layer) => std::iter::once(layer).chain(sandbox.stack.below.iter().copied()).collect(),
    };
    let stack = match sealing {
        Sealing::Upper => Stack { upper: Some(LayerId::new(context)), below: layers.clone() },
        Sealing::Nothing | Sealing::Copy(_) => sandbox.stack.clone(),
    };
    let checkpoint = Checkpoint {
        id: wanted.id,
        project_id: environment.project_id,
        environment_id: environment.id,
        sandbox_id: sandbox.id,
        name: wanted.name,
        parent_id: sandbox.checkpoint_id,
        state: CheckpointState::Sealed,
        reason: wanted.reason,
        created_by: wanted.caller.as_ref().map(|caller| caller.principal),
        created_at: now,
        durable_at: None,
        setup_version: environments::setup_version(unit, environment.id).await?,
        message: None,
        layers,
        host_id: sandbox.host_id,
        sealed_in: Some(sealed_in),
    };
    checkpoints::insert(unit, &checkpoint).await?;
    checkpoints::set_stack(unit, sandbox.id, &stack, Some(checkpoint.id), now).await?;
    let mut act = act(environment, "environment.checkpoint", &checkpoint);
    if matches!(sealing, Sealing::Copy(_)) {
        act.details.push(("frozen", true.into()));
    }
    match &wanted.caller {
        Some(caller) => record(unit, context, caller, act).await?,
        None => record_own(unit, context, act).await?,
    }
    Ok(checkpoint)
}

/// The sandbox of an environment that is still there and has the files that it had when it was looked at. Both are held until the unit ends.
pub(super) async fn unchanged(unit: &mut Unit, environment: &Environment) -> Result<Sandbox> {
    let present = environments::lock(unit, environment.id).await?.ok_or_else(|| crate::environments::unknown(environment.id))?;
    check_usable(&present)?;
    let sandbox = locked_sandbox(unit, environment.sandbox_id).await?;
    if sandbox.stack != environment.stack || sandbox.destroyed_at.is_some() {
        return Err(Error::new(Code::Conflict, "the environment's files were changed meanwhile").recoverable(true).suggestion("try again"));
    }
    Ok(sandbox)
}

pub(super) fn act<'a>(environment: &Environment, action: &'a str, checkpoint: &Checkpoint) -> Act<'a> {
    let details = vec![
        ("name", environment.name.clone().into()),
        ("checkpoint_id", checkpoint.id.to_string().into()),
        ("reason", checkpoint.reason.as_str().into()),
    ];
    Act { project: environment.project_id, action, target_type: "environment", target_id: environment.id.to_string(), details }
}

fn busy(environment: &Environment, running: u64) -> Error {
    let what = if running == 1 { "a process runs".to_owned() } else { format!("{running} processes run") };
    Error::new(Code::EnvironmentBusy, format!("{what} in environment `{}`", environment.name))
        .detail("processes", running)
        .suggestion("wait for them, or let them be ended with `on_running: stop` (`--stop`); `stead ps` shows them")
}

/// Where the lock on an environment is taken for work on its files.
pub(super) async fn locked(app: &App, id: EnvironmentId) -> tokio::sync::OwnedMutexGuard<()> {
    app.locks.lock(&id.to_string()).await
}
