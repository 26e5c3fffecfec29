use crate::connection;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::settings::{Source, Target};

use super::status;

pub async fn run(invocation: &Invocation<'_>) -> Result<()> {
    let settings = invocation.settings_without_lease()?;
    if let Target::Remote { endpoint } = &settings.target {
        let because = match &endpoint.source {
            Source::Profile(name) => format!("profile {name} points at"),
            source => format!("{source} names"),
        };
        invocation.printer.note(&format!("{because} {}, which this command does not start; this is how it is", endpoint.value));
        invocation.printer.hint("the local server: stead up --profile local");
        return status::run(invocation).await;
    }
    let (client, started) = connection::open_or_start(&settings, invocation.printer, &invocation.context).await?;
    let system = client.system().await?;
    invocation.printer.record(&system, &system.address, |printer| {
        let what = if started { "started" } else { "already running" };
        printer.note(&format!("{what}: stead {} with {} in {}", system.version, system.store, system.data_dir));
        printer.line(&system.address)?;
        printer.hint(&format!("the API's reference is at {}/docs/", system.address));
        printer.hint("stead env list");
        Ok(())
    })
}
