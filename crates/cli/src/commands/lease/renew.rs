use stead_domain::lease::Directive;

use super::{find, refusal, words};
use crate::arguments::lease::Held;
use crate::connection;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::session::patience::patiently;

pub async fn run(invocation: &Invocation<'_>, arguments: &Held) -> Result<()> {
    let settings = invocation.settings()?;
    let client = connection::open(&settings, invocation.printer, &invocation.context).await?;
    let lease = find::lease(&settings, &client, arguments.lease.as_deref()).await?;
    let renewed = match patiently(async || client.renew_lease(lease).await).await {
        Ok(renewed) => renewed,
        Err(error) => return Err(refusal::of_held(invocation, &settings, lease, error)),
    };
    // The reply says what to do; why, the lease itself does.
    let seen = match renewed.directive {
        Directive::FinishUp if invocation.printer.is_human() => client.get_lease(lease).await.ok(),
        _ => None,
    };
    invocation.printer.record(&renewed, &renewed.id.to_string(), |printer| {
        printer.note(&format!("{} lasts {} more", renewed.id, words::time(renewed.expires_in_ms)));
        match renewed.directive {
            Directive::Continue => {}
            Directive::FinishUp => printer.note(&words::why_finish(seen.as_ref())),
            Directive::Stop => printer.warn("stop what you do under it: its max_lifetime is over, and no renewal helps"),
        }
        Ok(())
    })
}
