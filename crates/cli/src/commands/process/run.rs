use std::path::Path;

use super::begin::{Here, Wanted};
use super::own::Own;
use crate::arguments::process::Run;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::references;
use crate::session::patience::patiently;
use crate::session::{Progress, Signals};

pub async fn run(invocation: &Invocation<'_>, arguments: &Run) -> Result<()> {
    let settings = invocation.settings()?;
    let client = invocation.client().await?;
    let here = Here { invocation, settings: &settings, client: &client, progress: Progress::new() };
    let mut wanted = Wanted::new(&arguments.command, &arguments.how, arguments.detach);
    let mut signals = Signals::listen()?;
    if let Some(reference) = &arguments.environment {
        let environment = references::environment(&client, reference).await?;
        return wanted.run(&here, &environment, &mut signals).await;
    }
    let own = Own::new(&here, arguments)?;
    let start =
        arguments.how.dir.as_deref().map_or(own.start.clone(), |below| Path::new(&own.start).join(below).to_string_lossy().into_owned());
    wanted.directory = Some(start);
    let outcome = run_in(&here, &own, &wanted, &mut signals).await;
    if arguments.remove {
        remove(&here, &own).await?;
    }
    outcome
}

async fn run_in(here: &Here<'_>, own: &Own, wanted: &Wanted<'_>, signals: &mut Signals) -> Result<()> {
    let text = format!("making environment {}", own.name);
    let environment = tokio::select! {
        environment = here.progress.during(&text, own.ensure(here)) => environment?,
        signal = signals.ended() => return Err(Failure::Told(ExitStatus::signaled(signal))),
    };
    wanted.run(here, &environment, signals).await
}

/// Found by its name: a creation that was interrupted has told us no id.
async fn remove(here: &Here<'_>, own: &Own) -> Result<()> {
    let Some(environment) = own.find(here).await? else { return Ok(()) };
    let deleting = patiently(async || here.client.delete_environment(environment.id).await);
    here.progress.during(&format!("deleting environment {}", own.name), deleting).await?;
    Ok(())
}
