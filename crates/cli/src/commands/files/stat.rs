use stead_domain::changes::EntryType;

use super::inside;
use crate::arguments::files::Stat;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Stat) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let entry = client.stat_file(environment.id, &inside(&arguments.path)?).await?;
    if !invocation.printer.is_json() && !invocation.printer.is_human() {
        return invocation.printer.name(entry.exact_path().as_bytes());
    }
    invocation.printer.record(&entry, "", |printer| {
        printer.fields(&[
            ("path", Some(entry.path.clone())),
            ("path bytes", entry.path_bytes.clone()),
            ("type", Some(entry.r#type.to_string())),
            ("target", entry.target.clone()),
            ("size", (entry.r#type == EntryType::File).then(|| format!("{} ({} bytes)", human::bytes(entry.size), entry.size))),
            ("mode", Some(entry.mode.clone())),
            ("modified", Some(entry.modified_at.to_string())),
        ])
    })
}
