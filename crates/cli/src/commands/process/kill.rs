use super::find;
use crate::arguments::process::Kill;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &Kill) -> Result<()> {
    let client = invocation.client().await?;
    let process = find::process(&client, &arguments.reference.process).await?;
    let after = client.signal_process(process.environment_id, process.id, arguments.signal).await?;
    invocation.printer.record(&after, &after.id.to_string(), |printer| {
        printer.note(&format!("sent {} to {}", arguments.signal, after.id));
        Ok(())
    })
}
