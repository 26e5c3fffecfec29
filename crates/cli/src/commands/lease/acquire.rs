use stead_client::NewLease;
use stead_domain::environment::Environment;
use stead_domain::lease::{LeaseBind, LeaseMode, OnBusy};

use super::obtaining::{Granted, obtain};
use super::{refusal, token_file, words};
use crate::arguments::lease::{Acquire, Wanted};
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;
use crate::session::Signals;
use crate::settings::{Settings, Source};

pub async fn run(invocation: &Invocation<'_>, arguments: &Acquire) -> Result<()> {
    arguments.output.as_deref().map_or(Ok(()), token_file::check)?;
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let mode = arguments.shared.then_some(LeaseMode::Shared);
    let new = NewLease { mode, bind: Some(arguments.bind), ..request(&environment, &arguments.wanted) };
    let mut signals = Signals::listen()?;
    let granted = obtain(invocation, &client, &environment, &new, &mut signals).await.map_err(|failure| {
        refusal::of_wanted(invocation, failure, |file| {
            format!("`stead lease renew{file}` begins its time anew, and `stead lease release{file}` lets go of it")
        })
    })?;
    show(invocation, arguments, &environment, &granted)
}

/// What the API is asked for; it binds by token, so that another command with the same key is somebody else.
pub fn request(environment: &Environment, wanted: &Wanted) -> NewLease {
    NewLease {
        environment_id: Some(environment.id),
        lease_ttl: wanted.ttl,
        max_lifetime: wanted.max_lifetime,
        mode: None,
        bind: Some(LeaseBind::Token),
        wait: wanted.wait,
        on_busy: wanted.preempt.then_some(OnBusy::Preempt),
        priority: wanted.priority,
        at_release: wanted.at_release,
        note: wanted.note.clone(),
    }
}

fn show(invocation: &Invocation<'_>, arguments: &Acquire, environment: &Environment, granted: &Granted) -> Result<()> {
    let (printer, Granted { reply, lease, token, .. }) = (invocation.printer, granted);
    let told = || {
        printer.note(&words::granted(environment, lease));
        words::before(lease).iter().for_each(|before| printer.note(before));
        if let Some(other) = Settings::named_lease(&invocation.global, &invocation.surroundings)
            && other.source == Source::Variable("STEAD_LEASE")
        {
            printer
                .warn(&format!("STEAD_LEASE still holds the token of {}, another lease: set it anew, or unset STEAD_LEASE", other.value));
        }
    };
    if let Some(path) = &arguments.output {
        if !token_file::write(printer, path, token)? {
            return Ok(());
        }
        return printer.record(lease_without_token(granted).as_ref(), &lease.id.to_string(), |printer| {
            told();
            printer.hint(&format!("present it with --lease-token-file {}", path.display()));
            Ok(())
        });
    }
    if printer.is_json() {
        return printer.json(reply);
    }
    if !printer.is_human() {
        return printer.line(&token.0);
    }
    told();
    if lease.bind == LeaseBind::Principal {
        printer.hint(&format!("all calls of {} are the holder's; renew it with `stead lease renew {}`", lease.holder, environment.name));
        return Ok(());
    }
    printer.line(&format!("export STEAD_LEASE={}", token.0))
}

/// The reply for where the token is not to be seen.
fn lease_without_token(granted: &Granted) -> Box<stead_domain::lease::AcquireReply> {
    let mut reply = granted.reply.clone();
    if let Some(lease) = &mut reply.lease {
        lease.token = None;
    }
    Box::new(reply)
}
