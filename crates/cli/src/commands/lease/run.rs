use std::pin::pin;
use std::time::Duration;

use stead_client::Client;
use stead_domain::Code;
use stead_domain::environment::Environment;
use stead_domain::ids::{LeaseId, ProcessId};
use stead_domain::lease::LeaseStatus;
use stead_domain::process::{ExitCause, Process};
use stead_domain::signal::Signal;
use tokio::sync::watch;

use super::acquire::request;
use super::keeping::keep;
use super::loss;
use super::obtaining::{Granted, obtain};
use super::vigil::{Loss, Term};
use crate::arguments::lease::Run;
use crate::commands::process::begin::{Here, Wanted, conclude};
use crate::commands::process::{OURS, as_ours};
use crate::connection;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::references;
use crate::session::patience::patiently;
use crate::session::{End, Progress, Session, Signals};
use crate::settings::Settings;

/// How long one is tried to be released that counts as lost here already.
const LAST_WORD: Duration = Duration::from_secs(5);

pub async fn run(invocation: &Invocation<'_>, arguments: &Run) -> Result<()> {
    match begin(invocation, arguments).await {
        // It could not be got. The command has not run, so this is no code of its own.
        Err(failure) if failure.exit_status() == ExitStatus::Conflict => Err(failure),
        Err(failure) => as_ours(invocation, Err(failure)),
        Ok((settings, environment, granted, mut signals)) => {
            as_ours(invocation, hold(invocation, arguments, &settings, &environment, &granted, &mut signals).await)
        }
    }
}

async fn begin(invocation: &Invocation<'_>, arguments: &Run) -> Result<(Settings, Environment, Granted, Signals)> {
    let settings = invocation.settings()?;
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let mut signals = Signals::listen()?;
    let granted = obtain(invocation, &client, &environment, &request(&environment, &arguments.wanted), &mut signals).await?;
    Ok((settings.presenting(Some(granted.token.clone())), environment, granted, signals))
}

/// What became of the command.
struct Done {
    process: Option<Process>,
    outcome: Result<End>,
    loss: Option<Loss>,
}

async fn hold(
    invocation: &Invocation<'_>,
    arguments: &Run,
    settings: &Settings,
    environment: &Environment,
    granted: &Granted,
    signals: &mut Signals,
) -> Result<()> {
    let lease = granted.lease.id;
    let client = connection::client(settings, &invocation.context);
    let here = Here { invocation, settings, client: &client, progress: Progress::new() };
    let wanted = Wanted::new(&arguments.command, &arguments.how, false);
    let Done { process, outcome, loss } = work(&here, &wanted, environment, granted, signals).await;
    let id = process.as_ref().map(|process| process.id);
    let was_fenced = match &outcome {
        Ok(End::Exit(exit, _)) => exit.cause == ExitCause::Fenced,
        Err(Failure::Reply { body, .. }) => [Code::FenceStale.as_str(), Code::LeaseLost.as_str()].contains(&body.error.code.as_str()),
        _ => false,
    };
    if loss.is_some() || was_fenced {
        // Where the server knows of no loss, it lets the next one in sooner.
        let _ = tokio::time::timeout(LAST_WORD, client.release_lease(lease, None)).await;
        return Err(lost(invocation, &client, environment, lease, id, loss.as_ref()).await);
    }
    if let (Ok(End::Detached(_)), Some(process)) = (&outcome, id) {
        invocation.printer.note("left: the command is stopped with the lease");
        let _ = client.signal_process(environment.id, process, Signal::KILL).await;
    }
    if !release(&here, environment, lease, signals).await {
        return Err(lost(invocation, &client, environment, lease, id, None).await);
    }
    match (process, outcome?) {
        (Some(process), end @ (End::Exit(..) | End::Failed(_))) => conclude(invocation, &process, end),
        _ => Err(Failure::Told(ExitStatus::signaled(Signal::INT))),
    }
}

/// Runs the command and renews beside it, over connections of its own: neither waits for the other.
async fn work(here: &Here<'_>, wanted: &Wanted<'_>, environment: &Environment, granted: &Granted, signals: &mut Signals) -> Done {
    let renewing = connection::client(here.settings, &here.invocation.context);
    let term = Term::new(granted.sent, granted.lease.expires_in_ms.unwrap_or_default());
    let finish_up = || here.invocation.printer.note("finish up: others wait, or no renewal helps for much longer");
    let mut keeping = pin!(keep(term, &here.invocation.context, async || renewing.renew_lease(granted.lease.id).await, finish_up));
    let (stop, stopped) = watch::channel(false);
    let (mut process, mut loss) = (None, None);
    let outcome = {
        let started = &mut process;
        let mut working = pin!(async {
            let (process, early) = wanted.start(here, environment, signals).await?;
            *started = Some(process.clone());
            Session { stop: Some(stopped), ..wanted.session(here, &process, early) }.run(signals).await
        });
        loop {
            tokio::select! {
                outcome = &mut working => break outcome,
                found = &mut keeping, if loss.is_none() => {
                    loss = Some(found);
                    let _ = stop.send(true);
                }
            }
        }
    };
    Done { process, outcome, loss }
}

/// False when it had ended before, whatever the command made of that.
async fn release(here: &Here<'_>, environment: &Environment, lease: LeaseId, signals: &mut Signals) -> bool {
    let (printer, text) = (here.invocation.printer, format!("releasing {}", environment.name));
    let releasing = patiently(async || here.client.release_lease(lease, None).await);
    let released = tokio::select! {
        released = here.progress.during(&text, releasing) => released,
        _ = signals.ended() => {
            printer.warn(&format!("{lease} is being released; nobody waited for that here"));
            return true;
        }
    };
    match released {
        Ok(ended) => matches!(ended.status, LeaseStatus::Released | LeaseStatus::Active),
        Err(error) => {
            printer.warn(&format!("{lease} could not be released and ends by itself: {error}"));
            true
        }
    }
}

async fn lost(
    invocation: &Invocation<'_>,
    client: &Client,
    environment: &Environment,
    lease: LeaseId,
    process: Option<ProcessId>,
    loss: Option<&Loss>,
) -> Failure {
    let failure = Failure::from(loss::explained(client, environment, lease, process, loss).await);
    invocation.printer.failure(&failure);
    Failure::Told(ExitStatus::Command(OURS))
}
