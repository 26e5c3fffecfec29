use stead_domain::lease::LeaseStatus;

use super::{find, words};
use crate::arguments::lease::Break;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::session::patience::patiently;

pub async fn run(invocation: &Invocation<'_>, arguments: &Break) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let lease = find::named(&client, &arguments.lease, None).await?;
    let ended = patiently(async || client.break_lease(lease, &arguments.reason).await).await?;
    invocation.printer.record(&ended, &ended.id.to_string(), |printer| {
        let who = words::named(&ended.holder, ended.note.as_deref());
        match ended.status {
            LeaseStatus::Revoked => {
                printer.note(&format!("ended {} of {who}; what ran under it is stopped before anybody else is let in", ended.id));
            }
            _ => printer.note(&format!("{} of {who} had ended before: {}", ended.id, words::ended(&ended))),
        }
        Ok(())
    })
}
