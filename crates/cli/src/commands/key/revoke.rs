use crate::arguments::identity::RevokeKey;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::{prompt, references};

pub async fn run(invocation: &Invocation<'_>, arguments: &RevokeKey) -> Result<()> {
    let client = invocation.client().await?;
    let key = references::api_key(&client, &arguments.key).await?;
    prompt::confirm(invocation.printer, &format!("Revoke key {} ({}…)?", key.name, key.key_prefix), arguments.yes)?;
    client.revoke_api_key(key.id).await?;
    invocation.printer.record(&key, &key.id.to_string(), |printer| {
        printer.note(&format!("revoked key {} ({})", key.name, key.id));
        Ok(())
    })
}
