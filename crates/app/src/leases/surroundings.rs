//! What has to be known before a decision and is in no record: whether something runs at the place.

use std::time::Duration;

use stead_domain::Result;
use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_store::{Unit, desks, environments};

use super::Office;
use super::underway::Quiet;
use crate::App;
use crate::environments::settled_activity;
use crate::place::PlaceError;

/// How long a place may take to say what runs.
const ASKED: Duration = Duration::from_secs(2);

/// How long it may take to say that it knows who holds it.
const CONFIRMED: Duration = Duration::from_secs(10);

/// What records say of a sandbox before its place is asked.
pub(super) struct Surroundings {
    /// How much had been begun there: what is begun later is in no answer of the place's.
    begun: u64,
    sharers: Vec<EnvironmentId>,
    pub unconfirmed: bool,
}

pub(super) async fn surroundings_in(unit: &mut Unit, office: &Office, environment: &Environment) -> Result<Surroundings> {
    let begun = office.underway.begun(environment.sandbox_id);
    let mut sharers = environments::of_sandbox(unit, environment.sandbox_id).await?;
    // One that is going has what ran in it until it is gone.
    if !sharers.contains(&environment.id) {
        sharers.push(environment.id);
    }
    Ok(Surroundings { begun, sharers, unconfirmed: desks::is_unconfirmed(unit, environment.sandbox_id, office.own).await? })
}

impl App {
    /// What a server before this one asked of the place may still be on its way there. Before anything is judged by what runs, the place is told
    /// who holds it.
    pub(super) async fn confirmed_quiet(&self, environment: &Environment, surroundings: &Surroundings) -> Result<Quiet> {
        if surroundings.unconfirmed {
            // Beside: it goes on when it takes longer than anybody should wait for it without having been told anything.
            let (app, sandbox) = (self.clone(), environment.sandbox_id);
            let carried = self.tasks.spawn(async move { app.carry(sandbox).await });
            match tokio::time::timeout(CONFIRMED, carried).await {
                Ok(Ok(carried)) => carried?,
                _ => return Err(super::barrier::fencing(environment)),
            }
        }
        Ok(self.quiet_in(environment, surroundings).await)
    }

    pub(super) async fn surroundings(&self, environment: &Environment) -> Result<Surroundings> {
        let (office, of) = (self.office(), environment.clone());
        self.store.glance(move |unit| Box::pin(async move { surroundings_in(unit, &office, &of).await })).await
    }

    /// Asks the place whether something runs in a sandbox, also what commands left behind and records do not know of. What cannot be asked
    /// counts as running.
    pub(super) async fn ask_for_quiet(&self, environment: &Environment) -> Quiet {
        match self.surroundings(environment).await {
            Ok(surroundings) => self.quiet_in(environment, &surroundings).await,
            Err(_) => Quiet::Unknown,
        }
    }

    pub(super) async fn quiet_in(&self, environment: &Environment, surroundings: &Surroundings) -> Quiet {
        let provider = environment.runtime.provider.unwrap_or(environment.provider);
        let Ok(ground) = self.ground(provider, environment.runtime.host) else { return Quiet::Unknown };
        let Ok(place) = ground.place() else { return Quiet::Unknown };
        for id in &surroundings.sharers {
            // Whoever keeps it and does not answer at once is busy, or stands still.
            let asked = tokio::time::timeout(ASKED, settled_activity(place, *id)).await;
            match asked.unwrap_or_else(|_| Err(PlaceError::Failed("it did not answer".to_owned()))) {
                Ok(None) => {}
                Ok(Some(activity)) if activity.processes + activity.background == 0 => {}
                _ => return Quiet::Unknown,
            }
        }
        Quiet::When(surroundings.begun)
    }
}
