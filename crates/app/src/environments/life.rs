//! Life: an environment wakes for its first command, sleeps when it is told to, and is asleep before it goes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::{MAXIMUM_LIMIT, PageRequest};
use stead_domain::process::EnvironmentActivity;
use stead_domain::sandbox::Sandbox;
use stead_domain::{Code, Error, Result};
use stead_store::processes::{self, ProcessFilter};

use crate::audit::{Act, record};
use crate::idempotency::Outcome;
use crate::leases::{Right, hold_in};
use crate::patience::within;
use crate::place::{Activity, Place, PlaceError};
use crate::processes::{Ground, check_usable};
use crate::{App, Entered};

impl App {
    /// Makes it ready for a command without one.
    pub async fn wake_environment(&self, entered: &Entered, id: EnvironmentId) -> Result<Outcome<Environment>> {
        let (app, whose) = (self.clone(), entered.clone());
        self.live_on(entered, async move {
            let environment = app.get_environment(&whose, id).await?;
            check_usable(&environment)?;
            app.knock(&whose, &environment).await?;
            app.set_up(&whose, id, false).await?;
            let _passing = app.gates.pass(id).await;
            let (environment, ground) = app.awake_or_not(&whose, id).await?;
            check_usable(&environment)?;
            app.note_life(&whose, &environment, "environment.wake", None).await?;
            within(ground.place()?.wake(&app.premises(&environment)?)).await?;
            Ok(environment)
        })
        .await
    }

    /// Runs the setup script if it has not run for this version of the definition, or once more.
    pub async fn set_up_environment(&self, entered: &Entered, id: EnvironmentId, again: bool) -> Result<Outcome<Environment>> {
        let (app, whose) = (self.clone(), entered.clone());
        self.live_on(entered, async move {
            app.awake_or_not(&whose, id).await?;
            app.set_up(&whose, id, again).await?;
            app.get_environment(&whose, id).await
        })
        .await
    }

    /// Leaves neither process nor mount of it. What runs inside is in the way, unless it may be ended.
    pub async fn sleep_environment(&self, entered: &Entered, id: EnvironmentId, force: bool) -> Result<Outcome<Environment>> {
        let (app, whose) = (self.clone(), entered.clone());
        self.live_on(entered, async move {
            app.knock(&whose, &app.awake_or_not(&whose, id).await?.0).await?;
            let _guard = app.locks.lock(&id.to_string()).await;
            let _shut = app.gates.shut(id).await;
            let (environment, ground) = app.awake_or_not(&whose, id).await?;
            app.knock_again(&whose, &environment).await?;
            let place = ground.place()?;
            let activity = settled_activity(place, id).await?.unwrap_or_default();
            if !force && let Some(what) = in_the_way(&activity) {
                return Err(Error::new(Code::Conflict, format!("{what} in environment `{}`", environment.name))
                    .detail("processes", activity.processes)
                    .detail("background", activity.background)
                    .suggestion("wait for them, or end them with `force: true` (`stead env sleep --force`); `stead ps` shows them"));
            }
            app.note_life(&whose, &environment, "environment.sleep", None).await?;
            app.lay_down(place, id, false).await?;
            Ok(environment)
        })
        .await
    }

    /// What it does now.
    pub async fn environment_activity(&self, entered: &Entered, id: EnvironmentId) -> Result<EnvironmentActivity> {
        let (environment, ground) = self.awake_or_not(entered, id).await?;
        let activity = within(ground.place()?.activity(id)).await?;
        let awake = activity.is_some();
        let Activity { processes, background, cpu_ms, memory_bytes, draining } = activity.unwrap_or_default();
        Ok(EnvironmentActivity { environment_id: environment.id, awake, processes, background, cpu_ms, memory_bytes, draining })
    }

    /// Ends everything inside, and then it sleeps.
    pub async fn stop_environment(&self, entered: &Entered, id: EnvironmentId) -> Result<Outcome<Environment>> {
        let (app, whose) = (self.clone(), entered.clone());
        self.live_on(entered, async move {
            app.knock(&whose, &app.awake_or_not(&whose, id).await?.0).await?;
            let _guard = app.locks.lock(&id.to_string()).await;
            let _shut = app.gates.shut(id).await;
            let (environment, ground) = app.awake_or_not(&whose, id).await?;
            app.knock_again(&whose, &environment).await?;
            app.note_life(&whose, &environment, "environment.stop", None).await?;
            app.lay_down(ground.place()?, id, false).await?;
            Ok(environment)
        })
        .await
    }

    /// Before its sandbox goes: nothing runs in it any more, its processes have their end written, and their output goes.
    pub(crate) async fn leave_place(&self, environment: &Environment, sandbox: &Sandbox) -> Result<()> {
        // Whoever runs nothing has nothing to leave.
        let Ok(ground) = self.ground(sandbox.provider, sandbox.host_id) else { return Ok(()) };
        let place = ground.place()?;
        let _shut = self.gates.shut(environment.id).await;
        self.lay_down(place, environment.id, true).await?;
        Ok(within(place.forget(environment.id, None)).await?)
    }

    /// Runs to its end even when the caller hangs up; a repetition is answered like the first.
    async fn live_on(
        &self,
        entered: &Entered,
        work: impl Future<Output = Result<Environment>> + Send + 'static,
    ) -> Result<Outcome<Environment>> {
        let (app, caller) = (self.clone(), entered.caller.clone());
        self.detached(async move { app.once(&caller, work).await }).await
    }

    pub(crate) async fn awake_or_not(&self, entered: &Entered, id: EnvironmentId) -> Result<(Environment, Ground)> {
        let environment = self.get_environment(entered, id).await?;
        if !environment.status.is_live() {
            check_usable(&environment)?;
        }
        let provider = environment.runtime.provider.unwrap_or(environment.provider);
        let ground = self.ground(provider, environment.runtime.host)?;
        Ok((environment, ground))
    }

    pub(crate) async fn note_life(
        &self,
        entered: &Entered,
        environment: &Environment,
        action: &'static str,
        right: Option<&Arc<Right>>,
    ) -> Result<()> {
        let (context, caller) = (self.context.clone(), entered.caller.clone());
        let (office, right) = (self.office(), right.map(Arc::clone));
        let (project, target_id, name) = (environment.project_id, environment.id.to_string(), environment.name.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    if let Some(right) = &right {
                        hold_in(unit, &office, right).await?;
                    }
                    let details = vec![("name", name.into())];
                    record(unit, &context, &caller, Act { project, action, target_type: "environment", target_id, details }).await
                })
            })
            .await
    }

    pub(crate) async fn lay_down(&self, place: &dyn Place, id: EnvironmentId, at_once: bool) -> Result<()> {
        within(place.sleep(id, at_once)).await?;
        self.settle(place, id).await
    }

    /// Writes the ends of the processes of an environment that were not written yet.
    async fn settle(&self, place: &dyn Place, id: EnvironmentId) -> Result<()> {
        let mut after = None;
        loop {
            let page = PageRequest { limit: MAXIMUM_LIMIT, after };
            let filter = ProcessFilter { unfinished: true, ..ProcessFilter::default() };
            let rows = self
                .store
                .read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::list(unit, id, &filter, &page).await?) }))
                .await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(last.id.to_string());
            for process in rows {
                if let Some(exit) = place.progress(id, process.id).await?.and_then(|progress| progress.exit) {
                    self.finish_process(process.id, exit).await?;
                }
            }
        }
    }
}

/// What runs in an environment. Whoever wrote a file has said that it is done a moment before it is gone: that moment is waited for.
pub(crate) async fn settled_activity(place: &dyn Place, id: EnvironmentId) -> std::result::Result<Option<Activity>, PlaceError> {
    for pause in [2, 5, 10, 20, 40] {
        match place.activity(id).await? {
            Some(activity) if activity.processes == 0 && activity.background > 0 => {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            activity => return Ok(activity),
        }
    }
    place.activity(id).await
}

/// What keeps an environment from sleeping by itself.
fn in_the_way(activity: &Activity) -> Option<String> {
    let processes = match activity.processes {
        0 => None,
        1 => Some("a process runs".to_owned()),
        several => Some(format!("{several} processes run")),
    };
    let background = match activity.background {
        0 => None,
        1 => Some("a program runs that a command left behind".to_owned()),
        several => Some(format!("{several} programs run that commands left behind")),
    };
    let all: Vec<String> = processes.into_iter().chain(background).collect();
    (!all.is_empty()).then(|| all.join(", and "))
}
