use stead_domain::lease::Directive;

use super::{find, words};
use crate::arguments::lease::Held;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::session::patience::patiently;

pub async fn run(invocation: &Invocation<'_>, arguments: &Held) -> Result<()> {
    let settings = invocation.settings()?;
    let client = invocation.client().await?;
    let lease = find::lease(&settings, &client, arguments.lease.as_deref()).await?;
    let renewed = patiently(async || client.renew_lease(lease).await).await?;
    invocation.printer.record(&renewed, &renewed.id.to_string(), |printer| {
        printer.note(&format!("{} lasts {} more", renewed.id, words::time(renewed.expires_in_ms)));
        match renewed.directive {
            Directive::Continue => {}
            Directive::FinishUp => printer.note("finish up: others wait, or no renewal helps after this one"),
            Directive::Stop => printer.warn("stop what you do under it"),
        }
        Ok(())
    })
}
