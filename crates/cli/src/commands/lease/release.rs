use stead_domain::lease::LeaseStatus;

use super::{find, words};
use crate::arguments::lease::Release;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::session::Progress;
use crate::session::patience::patiently;

pub async fn run(invocation: &Invocation<'_>, arguments: &Release) -> Result<()> {
    let settings = invocation.settings()?;
    let client = invocation.client().await?;
    let lease = find::lease(&settings, &client, arguments.held.lease.as_deref()).await?;
    let releasing = patiently(async || client.release_lease(lease, arguments.at_release).await);
    let ended = Progress::new().during("stopping what still runs", releasing).await?;
    invocation.printer.record(&ended, &ended.id.to_string(), |printer| {
        match ended.status {
            LeaseStatus::Released => printer.note(&format!("released {}", ended.id)),
            _ => printer.note(&format!("{} had ended before: {}", ended.id, words::ended(&ended))),
        }
        Ok(())
    })
}
