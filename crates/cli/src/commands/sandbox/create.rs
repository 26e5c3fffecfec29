use super::view;
use crate::arguments::sandbox::CreateSandbox;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &CreateSandbox) -> Result<()> {
    let client = invocation.client().await?;
    let sandbox = client.create_sandbox(arguments.provider).await?;
    invocation.printer.record(&sandbox, &sandbox.id.to_string(), |printer| {
        view::show(printer, &sandbox)?;
        printer.hint(&format!("use it: stead env create NAME --sandbox {}", sandbox.id));
        Ok(())
    })
}
