use crate::arguments::secret::DeleteSecret;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::prompt;

pub async fn run(invocation: &Invocation<'_>, arguments: &DeleteSecret) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let secret = client.get_secret(&arguments.name).await?;
    let question = format!("Delete secret {}? Environments that require it start nothing without it.", secret.name);
    prompt::confirm(invocation.printer, &question, arguments.yes)?;
    client.delete_secret(&secret.name).await?;
    invocation.printer.record(&secret, &secret.name, |printer| {
        printer.note(&format!("deleted secret {}", secret.name));
        Ok(())
    })
}
