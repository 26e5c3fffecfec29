use stead_domain::lease::{LeaseBind, TransferRequest};
use stead_domain::{Code, Error};

use super::{find, refusal, token_file};
use crate::arguments::lease::Transfer;
use crate::connection;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::session::patience::patiently;

pub async fn run(invocation: &Invocation<'_>, arguments: &Transfer) -> Result<()> {
    if let Some(path) = arguments.output.as_deref() {
        if arguments.bind == LeaseBind::Principal {
            return Err(Error::new(Code::Usage, "with --bind principal there is no token to write").suggestion("leave -o out").into());
        }
        token_file::check(path)?;
    }
    let settings = invocation.settings()?;
    let client = connection::open(&settings, invocation.printer, &invocation.context).await?;
    let lease = find::lease(&settings, &client, arguments.held.lease.as_deref()).await?;
    let transfer = TransferRequest { to: arguments.to.clone(), bind: Some(arguments.bind), note: arguments.note.clone() };
    let key = client.new_key();
    let mut reply = match patiently(async || client.transfer_lease(lease, &transfer, &key).await).await {
        Ok(reply) => reply,
        Err(error) => return Err(refusal::of_held(invocation, &settings, lease, error)),
    };
    let successor = reply.lease.clone().ok_or_else(|| {
        Error::new(Code::Unreachable, "the server handed the lease on and did not say to which").suggestion("`stead lease list` shows it")
    })?;
    let printer = invocation.printer;
    let told = || printer.note(&format!("{} holds it now: {}, fence {}", successor.holder, successor.id, successor.fence));
    if let (Some(path), Some(token)) = (&arguments.output, &successor.token) {
        if !token_file::write(printer, path, token)? {
            return Ok(());
        }
        reply.lease.iter_mut().for_each(|lease| lease.token = None);
        return printer.record(&reply, &successor.id.to_string(), |printer| {
            told();
            printer.hint(&format!("whoever has {} presents it with --lease-token-file", path.display()));
            Ok(())
        });
    }
    if printer.is_json() {
        return printer.json(&reply);
    }
    told();
    match (arguments.bind, &successor.token) {
        (LeaseBind::Token, Some(token)) if printer.is_human() => printer.line(&format!("export STEAD_LEASE={}", token.0)),
        (LeaseBind::Token, Some(token)) => printer.line(&token.0),
        _ if printer.is_human() => Ok(()),
        _ => printer.line(&successor.id.to_string()),
    }
}
