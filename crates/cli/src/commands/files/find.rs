use stead_domain::files::FindOrder;

use super::{inside, ls};
use crate::arguments::files::Find;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;
use crate::session::patience::patiently;

pub async fn run(invocation: &Invocation<'_>, arguments: &Find) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let order = FindOrder {
        path: inside(&arguments.path)?,
        pattern: Some(arguments.pattern.clone()),
        ignore_case: arguments.ignore_case,
        all: arguments.all,
        limit: arguments.limit,
    };
    let found = patiently(async || client.find_files(environment.id, &order).await).await?;
    if !invocation.printer.is_json() && !invocation.printer.is_human() {
        return found.items.iter().try_for_each(|entry| invocation.printer.name(entry.exact_path().as_bytes()));
    }
    let rows: Vec<Vec<String>> = found.items.iter().map(ls::row).collect();
    let empty = format!("nothing fits `{}`; --all also shows what is hidden or ignored", arguments.pattern);
    invocation.printer.list(&found, &[], &["mode", "size", "modified", "path"], &rows, &empty)?;
    if found.truncated {
        invocation.printer.hint("there is more: raise --limit, or say more with the pattern");
    }
    Ok(())
}
