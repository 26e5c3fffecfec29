//! Remove: kills what runs, then its output and its record go.

use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::Process;
use stead_domain::signal::Signal;
use stead_domain::{Code, Error, Result};
use stead_store::processes;

use crate::audit::record;
use crate::patience::within;
use crate::place::PlaceError;
use crate::processes::read::ended;
use crate::processes::start::act;
use crate::{App, Entered};

impl App {
    /// Answers with the final record. Repeated after a crash it goes on where it was.
    pub async fn remove_process(&self, entered: &Entered, environment: EnvironmentId, id: ProcessId) -> Result<Process> {
        let placed = self.placed(entered, environment, id).await?;
        if !placed.process.status.is_over() && self.watches.exit_of(id).is_none() {
            self.knock(entered, &self.get_environment(entered, environment).await?).await?;
        }
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.remove_to_the_end(entered, environment, id).await }).await
    }

    async fn remove_to_the_end(&self, entered: Entered, environment: EnvironmentId, id: ProcessId) -> Result<Process> {
        let placed = self.placed(&entered, environment, id).await?;
        let ground = self.ground_of(&placed)?;
        let place = ground.place()?;
        let (context, caller, process) = (self.context.clone(), entered.caller.clone(), placed.process.clone());
        self.store
            .write(move |unit| Box::pin(async move { record(unit, &context, &caller, act(&process, "process.delete", Vec::new())).await }))
            .await?;
        let mut process = self.merged(placed.process, place).await;
        if !process.status.is_over() {
            match place.signal(environment, id, None, Signal::KILL.number()).await {
                Ok(()) | Err(PlaceError::Over | PlaceError::NoProcess) => {}
                Err(error) => return Err(error.into()),
            }
            process = match self.until_over(place, environment, id).await {
                Some(exit) => ended(process, exit),
                None if place.progress(environment, id).await?.is_none() => process,
                None => {
                    return Err(Error::new(Code::ProviderFailed, format!("process `{id}` was killed and is not gone yet"))
                        .suggestion("try again; `stead env stop` ends everything in the environment"));
                }
            };
        }
        within(place.forget(environment, Some(id))).await?;
        self.store.write(move |unit| Box::pin(async move { Ok::<_, Error>(processes::delete(unit, id).await?) })).await?;
        Ok(process)
    }
}
