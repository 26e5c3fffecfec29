use crate::connection;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>) -> Result<()> {
    let settings = invocation.settings()?;
    let (client, started) = connection::open_or_start(&settings, invocation.printer, &invocation.context).await?;
    let system = client.system().await?;
    invocation.printer.record(&system, &system.address, |printer| {
        let what = if started { "started" } else { "already running" };
        printer.note(&format!("{what}: stead {} with {} in {}", system.version, system.store, system.data_dir));
        printer.line(&system.address)?;
        printer.hint("stead env list");
        Ok(())
    })
}
