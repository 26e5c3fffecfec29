use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use stead_client::ClientError;
use stead_domain::environment::Environment;
use stead_domain::ids::LeaseId;
use stead_domain::lease::LeaseStatus;
use stead_domain::process::{ExitCause, Process};
use stead_domain::signal::Signal;
use stead_domain::{Code, Error};
use tokio::sync::{Notify, watch};

use super::acquire::request;
use super::keeping::keep;
use super::loss::{self, Fate};
use super::obtaining::{Granted, obtain};
use super::vigil::{Loss, Term};
use super::{refusal, words};
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
    let settings = invocation.settings_without_lease()?;
    let client = connection::open(&settings, invocation.printer, &invocation.context).await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let mut signals = Signals::listen()?;
    let wanted = request(&environment, &arguments.wanted);
    let granted = obtain(invocation, &client, &environment, &wanted, &mut signals).await.map_err(|failure| {
        refusal::of_wanted(invocation, failure, |file| format!("`stead exec {}{file} -- COMMAND` runs under it", environment.name))
    })?;
    words::before(&granted.lease).iter().for_each(|before| invocation.printer.note(before));
    Ok((settings.presenting(Some(granted.token.clone())), environment, granted, signals))
}

/// What became of the command.
struct Done {
    process: Option<Process>,
    outcome: Result<End>,
    loss: Option<Loss>,
    /// Of one that was handed on, whose command goes on.
    fate: Option<Fate>,
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
    let Done { process, outcome, loss, fate } = work(&here, &wanted, environment, granted, signals).await;
    let id = process.as_ref().map(|process| process.id);
    let was_fenced = match &outcome {
        Ok(End::Exit(exit, _)) => exit.cause == ExitCause::Fenced,
        Err(Failure::Reply { body, .. }) => [Code::FenceStale.as_str(), Code::LeaseLost.as_str()].contains(&body.error.code.as_str()),
        _ => false,
    };
    if loss.is_some() || was_fenced {
        // Looked at before it is released here, which would be how it ended.
        let fate = match fate {
            Some(fate) => fate,
            None => loss::look(&client, environment, &granted.lease, id).await,
        };
        if fate.is_held() {
            // It lets the next one in sooner.
            let _ = tokio::time::timeout(LAST_WORD, client.release_lease(lease, None)).await;
        }
        return Err(lost(invocation, loss::explained(environment, &granted.lease, &fate, id, loss.as_ref())));
    }
    if let (Ok(End::Detached(_)), Some(process)) = (&outcome, id) {
        invocation.printer.note("left: the command is stopped with the lease");
        let _ = client.signal_process(environment.id, process, Signal::KILL).await;
    }
    if !release(&here, environment, lease, signals).await {
        let fate = loss::look(&client, environment, &granted.lease, id).await;
        return Err(lost(invocation, loss::explained(environment, &granted.lease, &fate, id, None)));
    }
    match (process, outcome?) {
        (Some(process), end @ (End::Exit(..) | End::Failed(_))) => conclude(invocation, &process, end),
        _ => Err(Failure::Told(ExitStatus::signaled(Signal::INT))),
    }
}

/// Runs the command and renews beside it, over connections of its own: neither waits for the other.
async fn work(here: &Here<'_>, wanted: &Wanted<'_>, environment: &Environment, granted: &Granted, signals: &mut Signals) -> Done {
    let connect = || connection::client(here.settings, &here.invocation.context);
    let (renewing, asking, lease) = (connect(), connect(), &granted.lease);
    let term = Term::new(granted.sent, lease.expires_in_ms.unwrap_or_default());
    let (begun, finish) = (Cell::new(None), Notify::new());
    let mut keeping = pin!(async {
        let renew = async || renewing.renew_lease(lease.id).await;
        let loss = keep(term, &here.invocation.context, renew, || finish.notify_one()).await;
        // Whose lease the server has ended can stop nothing any more, and need not where the command goes on for somebody else.
        let fate = match &loss {
            Loss::Told(ClientError::Reply { body, .. }) if body.error.code == Code::LeaseLost.as_str() => {
                Some(loss::look(&renewing, environment, lease, begun.get()).await)
            }
            _ => None,
        };
        (loss, fate)
    });
    let mut telling = pin!(async {
        finish.notified().await;
        let seen = tokio::time::timeout(LAST_WORD, asking.get_lease(lease.id)).await.ok().and_then(Result::ok);
        here.invocation.printer.note(&words::why_finish(seen.as_ref()));
    });
    let (stop, stopped) = watch::channel(false);
    let (mut process, mut loss, mut fate, mut is_told) = (None, None, None, false);
    let outcome = {
        let started = &mut process;
        let mut working = pin!(async {
            let (process, early) = wanted.start(here, environment, signals).await?;
            begun.set(Some(process.id));
            *started = Some(process.clone());
            Session { stop: Some(stopped), ..wanted.session(here, &process, early) }.run(signals).await
        });
        loop {
            tokio::select! {
                outcome = &mut working => break outcome,
                (found, seen) = &mut keeping, if loss.is_none() => {
                    loss = Some(found);
                    fate = seen.filter(|fate| fate.handed_on(lease).is_some());
                    if fate.is_some() {
                        break Ok(End::Detached(0));
                    }
                    let _ = stop.send(true);
                }
                () = &mut telling, if !is_told => is_told = true,
            }
        }
    };
    Done { process, outcome, loss, fate }
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
        Ok(ended) => {
            if let Some(successor) = words::successor(&ended) {
                printer.note(&format!("the lease was handed on to {successor} meanwhile"));
            }
            matches!(ended.status, LeaseStatus::Released | LeaseStatus::Active)
        }
        Err(error) => {
            printer.warn(&format!("{lease} could not be released and ends by itself: {error}"));
            true
        }
    }
}

fn lost(invocation: &Invocation<'_>, error: Error) -> Failure {
    invocation.printer.failure(&error.into());
    Failure::Told(ExitStatus::Command(OURS))
}
