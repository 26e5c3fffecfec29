//! Processes: records of what was started, over the place that runs it.
//!
//! A row says that a process was asked for and, in the end, how it ended. In between the place knows better: whoever reads asks it too, so
//! that nothing that was said once is contradicted later. A task per live process writes down its end.

mod bound;
mod control;
mod ends;
mod exec;
mod forget;
mod gates;
mod output;
mod premises;
mod read;
mod remove;
mod setup;
mod start;
mod strays;
mod wait;
mod watch;

use std::sync::Arc;

use stead_domain::environment::{Environment, EnvironmentStatus};
use stead_domain::ids::{EnvironmentId, HostId, ProcessId};
use stead_domain::process::Process;
use stead_domain::provider::ProviderName;
use stead_domain::{Code, Error, Result};
use stead_store::{processes, sandboxes};

pub(crate) use ends::Ends;
pub use exec::Executed;
pub(crate) use gates::Gates;
pub use output::{OutputReader, Piece, Reading};
pub(crate) use setup::SETUP_GONE;
pub use stead_store::processes::ProcessFilter as ProcessQuery;
pub(crate) use watch::Watches;

use crate::place::Place;
use crate::provider::Provider;
use crate::{App, Entered};

pub(crate) fn unknown(id: ProcessId) -> Error {
    Error::not_found("process", id).suggestion("`stead ps --all` lists the processes of an environment")
}

/// A provider whose sandboxes run processes.
#[derive(Clone)]
pub(crate) struct Ground(Arc<dyn Provider>);

impl Ground {
    pub(crate) fn place(&self) -> Result<&dyn Place> {
        self.0.place().ok_or_else(|| {
            Error::new(Code::ProviderNotConfigured, format!("provider `{}` runs no processes on this server", self.0.name()))
                .detail("provider", self.0.name().as_str())
                .suggestion("`stead provider check` says why; `stead provider list` shows what each can do")
        })
    }
}

/// A process, and who answers for it.
#[derive(Clone)]
pub(crate) struct Placed {
    pub process: Process,
    pub provider: ProviderName,
    pub host: Option<HostId>,
}

impl App {
    /// The place of a provider, if this server may speak to it.
    pub(crate) fn ground(&self, provider: ProviderName, host: Option<HostId>) -> Result<Ground> {
        self.check_host_id(host)?;
        let ground = Ground(Arc::clone(self.providers.serving(provider)?));
        ground.place()?;
        Ok(ground)
    }

    pub(crate) fn ground_of(&self, placed: &Placed) -> Result<Ground> {
        self.ground(placed.provider, placed.host)
    }

    pub(crate) async fn placed(&self, entered: &Entered, environment: EnvironmentId, id: ProcessId) -> Result<Placed> {
        let project = entered.project;
        let found = self
            .store
            .glance(move |unit| {
                Box::pin(async move {
                    let Some(process) = processes::find(unit, project, environment, id).await? else { return Ok::<_, Error>(None) };
                    let sandbox = sandboxes::find(unit, process.sandbox_id).await?;
                    Ok(sandbox.map(|sandbox| Placed { process, provider: sandbox.provider, host: sandbox.host_id }))
                })
            })
            .await?;
        found.ok_or_else(|| unknown(id))
    }
}

/// Only what is whole runs something. Each of the others says why not, and what would help.
pub(crate) fn check_usable(environment: &Environment) -> Result<()> {
    if environment.status == EnvironmentStatus::Failed && setup::setup_failed(environment) {
        let message = format!("environment `{}` cannot be used: its setup script failed; `last_error` says how", environment.name);
        return Err(Error::new(Code::Conflict, message)
            .detail("status", environment.status.as_str())
            .suggestion(setup::setup_advice(&environment.name)));
    }
    let (code, message, suggestion) = match environment.status {
        EnvironmentStatus::Ready | EnvironmentStatus::Running => return Ok(()),
        EnvironmentStatus::Provisioning => (Code::Conflict, "it is still being made", "try again in a moment"),
        EnvironmentStatus::Retained => {
            (Code::Conflict, "it is only kept, and runs nothing any more", "`stead env reconcile` says whether it can be used again")
        }
        EnvironmentStatus::Failed => {
            (Code::Conflict, "it could not be made; `last_error` says why", "mend that and run `stead env reconcile`, which tries again")
        }
        EnvironmentStatus::Orphaned => (
            Code::Conflict,
            "its sandbox is gone from the provider",
            "`stead env reconcile` adopts it when it comes back; else delete it and create it again",
        ),
        EnvironmentStatus::Destroying | EnvironmentStatus::Destroyed => {
            (Code::EnvironmentDestroyed, "it has been deleted", "create another one")
        }
    };
    Err(Error::new(code, format!("environment `{}` cannot be used: {message}", environment.name))
        .detail("status", environment.status.as_str())
        .suggestion(suggestion))
}
