use stead_domain::lease::{LeaseBind, TransferRequest};
use stead_domain::{Code, Error};

use super::find;
use crate::arguments::lease::Transfer;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &Transfer) -> Result<()> {
    let settings = invocation.settings()?;
    let client = invocation.client().await?;
    let lease = find::lease(&settings, &client, arguments.held.lease.as_deref()).await?;
    let transfer = TransferRequest { to: arguments.to.clone(), bind: Some(arguments.bind), note: arguments.note.clone() };
    let reply = client.transfer_lease(lease, &transfer).await?;
    let successor = reply.lease.clone().ok_or_else(|| {
        Error::new(Code::Unreachable, "the server handed the lease on and did not say to which").suggestion("`stead lease list` shows it")
    })?;
    let printer = invocation.printer;
    if printer.is_json() {
        return printer.json(&reply);
    }
    printer.note(&format!("{} holds it now: {}, fence {}", successor.holder, successor.id, successor.fence));
    match (arguments.bind, &successor.token) {
        (LeaseBind::Token, Some(token)) if printer.is_human() => printer.line(&format!("export STEAD_LEASE={}", token.0)),
        (LeaseBind::Token, Some(token)) => printer.line(&token.0),
        _ if printer.is_human() => Ok(()),
        _ => printer.line(&successor.id.to_string()),
    }
}
