use crate::arguments::sandbox::DeleteSandbox;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::{prompt, references};

pub async fn run(invocation: &Invocation<'_>, arguments: &DeleteSandbox) -> Result<()> {
    let client = invocation.client().await?;
    let sandbox = references::sandbox(&client, &arguments.reference.sandbox).await?;
    prompt::confirm(invocation.printer, &format!("Delete sandbox {} and everything in it?", sandbox.id), arguments.yes)?;
    let sandbox = client.delete_sandbox(sandbox.id).await?;
    invocation.printer.record(&sandbox, &sandbox.id.to_string(), |printer| {
        printer.note(&format!("deleted sandbox {}", sandbox.id));
        Ok(())
    })
}
