use stead_client::NewApiKey;
use stead_domain::tags::Tags;
use stead_domain::{Code, Error};

use crate::arguments::identity::CreateKey;
use crate::atomic_file;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &CreateKey) -> Result<()> {
    if let Some(path) = arguments.output.as_ref().filter(|path| path.symlink_metadata().is_ok()) {
        // Found out before the key is made: one that cannot be written down is lost.
        return Err(Error::new(Code::AlreadyExists, format!("{} is there already", path.display()))
            .suggestion("choose another file")
            .into());
    }
    let client = invocation.client().await?;
    let principal_id = match &arguments.principal {
        Some(reference) => match reference.parse() {
            Ok(id) => id,
            Err(_) => references::member(&client, reference).await?.principal_id,
        },
        None => client.identity().await?.principal_id,
    };
    let expires_at = arguments.expires.map(|duration| invocation.now().plus(duration.into()));
    let key = client.create_api_key(&NewApiKey { name: arguments.name.clone(), principal_id, expires_at, tags: Tags::new() }).await?;
    let printer = invocation.printer;
    if let Some(path) = &arguments.output {
        if !atomic_file::create_new(path, format!("{}\n", key.key).as_bytes(), 0o600)? {
            // Somebody was faster: the key is still told, on stdout.
            printer.warn(&format!("{} is there already; the key follows", path.display()));
            return printer.line(&key.key);
        }
        return printer.record(&key.api_key, &key.api_key.id.to_string(), |printer| {
            printer.note(&format!("wrote key {} ({}) to {}", key.api_key.name, key.api_key.id, path.display()));
            Ok(())
        });
    }
    if printer.is_json() {
        return printer.json(&key);
    }
    printer.note(&format!("key {} ({}), shown only now:", key.api_key.name, key.api_key.id));
    printer.line(&key.key)
}
