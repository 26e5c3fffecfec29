use stead_domain::lease::LeaseStatus;

use super::{find, refusal, words};
use crate::arguments::lease::Release;
use crate::connection;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::session::Progress;
use crate::session::patience::patiently;
use crate::settings::lease::without;

pub async fn run(invocation: &Invocation<'_>, arguments: &Release) -> Result<()> {
    let settings = invocation.settings()?;
    let client = connection::open(&settings, invocation.printer, &invocation.context).await?;
    let lease = find::lease(&settings, &client, arguments.held.lease.as_deref()).await?;
    // A repetition is answered like the first one: only a look before it tells that nothing was let go of now.
    let before = client.get_lease(lease).await.ok().filter(|before| before.status != LeaseStatus::Active);
    let releasing = patiently(async || client.release_lease(lease, arguments.at_release).await);
    let ended = match Progress::new().during("stopping what still runs", releasing).await {
        Ok(ended) => ended,
        Err(error) => return Err(refusal::of_held(invocation, &settings, lease, error)),
    };
    invocation.printer.record(&ended, &ended.id.to_string(), |printer| {
        match (&before, ended.status) {
            // Told to whoever let go of it for somebody else.
            (None, LeaseStatus::Released) => match &ended.reason {
                Some(_) => printer.note(&format!("released {} of {}", ended.id, words::named(&ended.holder, ended.note.as_deref()))),
                None => printer.note(&format!("released {}", ended.id)),
            },
            (None, LeaseStatus::Active) => printer.note(&format!("{} is being released; what ran under it is stopped first", ended.id)),
            _ => {
                printer.note(&format!("{} had ended before: {}", ended.id, words::ended(&ended)));
                if let Some(presented) = settings.presented().filter(|presented| presented.value == ended.id) {
                    let source = &presented.source;
                    printer.hint(&format!("{source} presents a lease that has ended, and nothing else was let go of: {}", without(source)));
                }
            }
        }
        Ok(())
    })
}
