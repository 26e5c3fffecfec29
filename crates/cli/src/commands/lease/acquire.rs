use stead_client::NewLease;
use stead_domain::environment::Environment;
use stead_domain::lease::{LeaseBind, LeaseMode, OnBusy};
use stead_domain::{Code, Error};

use super::obtaining::{Granted, obtain};
use super::words;
use crate::arguments::lease::{Acquire, Wanted};
use crate::atomic_file;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;
use crate::session::Signals;

pub async fn run(invocation: &Invocation<'_>, arguments: &Acquire) -> Result<()> {
    if let Some(path) = arguments.output.as_ref().filter(|path| path.symlink_metadata().is_ok()) {
        // Found out before anything is held: a token that cannot be written down is lost.
        return Err(Error::new(Code::AlreadyExists, format!("{} is there already", path.display()))
            .suggestion("choose another file")
            .into());
    }
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let mode = arguments.shared.then_some(LeaseMode::Shared);
    let new = NewLease { mode, bind: Some(arguments.bind), ..request(&environment, &arguments.wanted) };
    let mut signals = Signals::listen()?;
    let granted = obtain(invocation, &client, &environment, &new, &mut signals).await?;
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
        let time = lease.expires_in_ms.map(words::time).unwrap_or_default();
        printer.note(&format!("{} is yours for {time}: {}, fence {}", environment.name, lease.id, lease.fence));
        if let Some(before) = lease.previous.as_ref().filter(|before| !before.clean) {
            let who = words::named(&before.holder, before.note.as_deref());
            printer.note(&format!("{who} held it before and did not let go ({}): look at what is there", before.ended));
        }
    };
    if let Some(path) = &arguments.output {
        if !atomic_file::create_new(path, format!("{}\n", token.0).as_bytes(), 0o600)? {
            // Somebody was faster: the token is still told, on stdout.
            printer.warn(&format!("{} is there already; the token follows", path.display()));
            return printer.line(&token.0);
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
