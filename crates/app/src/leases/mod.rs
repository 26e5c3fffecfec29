//! Leases: who may change an environment. The rules are [`stead_domain::lease::decide`]; here they are asked, in a unit of work that has the
//! sandbox locked, and what follows from them is carried out.
//!
//! Three things keep two holders apart. The store decides who holds it, one decision after the other. [`Underway`] tells every decision what
//! the caller of another is just doing. And where something of the holder before may still run, nobody is let in before the place has
//! answered that it is gone ([`barrier`]).

mod acquire;
mod barrier;
mod deciding;
mod entering;
mod held;
mod keeper;
mod read;
mod standing;
mod surroundings;
mod ticket;
mod underway;
mod view;
mod waiters;
mod work;

use std::sync::Arc;

use stead_domain::definition::{LeasePolicyKind, Spec};
use stead_domain::environment::Environment;
use stead_domain::ids::HostId;
use stead_domain::lease::{Rules, Terms, Whereabouts};
use stead_domain::{Context, Error};

pub use acquire::AcquireEnvironment;
pub(crate) use deciding::{Asked, decide_in};
pub(crate) use entering::{Right, Sight, hold_in, see_in, taken_over};
pub(crate) use keeper::Keeper as LeaseKeeper;
pub use read::LeaseQuery;
pub(crate) use underway::Underway;
pub(crate) use view::add_holders;
pub(crate) use waiters::Waiters;

use crate::{App, Sealer};

/// What a decision needs besides the store.
#[derive(Clone)]
pub(crate) struct Office {
    pub context: Context,
    pub sealer: Arc<dyn Sealer>,
    pub underway: Arc<Underway>,
    /// This server's host, and since when this server is there.
    pub own: (HostId, i64),
    /// The clock of the store is this machine's own.
    pub own_clock: bool,
}

impl App {
    pub(crate) fn office(&self) -> Office {
        Office {
            context: self.context.clone(),
            sealer: self.sealer.clone(),
            underway: self.underway.clone(),
            own: (self.host, self.since.microseconds()),
            own_clock: self.store.dialect() == stead_store::Dialect::Sqlite,
        }
    }
}

impl Office {
    /// What a definition says of leases. `local` is where the sandbox is on the machine whose clock is read.
    pub fn rules(&self, environment: &Environment) -> Rules {
        let lease = environment.spec.lease.as_ref();
        Rules {
            open: is_open(&environment.spec),
            lock_delay: lease.and_then(|lease| lease.lock_delay).map_or(0, |delay| delay.as_millis()),
            local: self.own_clock && environment.runtime.host == Some(self.own.0),
        }
    }

    /// The same, of all who share a sandbox.
    pub fn rules_of(&self, all: &[Environment]) -> Rules {
        let each = all.iter().map(|environment| self.rules(environment));
        let none = Rules { open: !all.is_empty(), lock_delay: 0, local: false };
        each.fold(none, |together, one| Rules {
            open: together.open && one.open,
            lock_delay: together.lock_delay.max(one.lock_delay),
            local: together.local || one.local,
        })
    }
}

pub(crate) fn is_open(spec: &Spec) -> bool {
    spec.lease.as_ref().and_then(|lease| lease.policy) == Some(LeasePolicyKind::Open)
}

pub(crate) fn whereabouts(environment: &Environment, terms: Terms) -> Whereabouts {
    Whereabouts { project_id: environment.project_id, environment_id: environment.id, sandbox_id: environment.sandbox_id, terms }
}

pub(crate) fn no_sandbox(environment: &Environment) -> Error {
    Error::new(stead_domain::Code::EnvironmentDestroyed, format!("environment `{}` has no sandbox any more", environment.name))
        .suggestion("create another one")
}
