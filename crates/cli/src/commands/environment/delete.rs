use stead_domain::environment::Environment;

use crate::arguments::environment::Delete;
use crate::commands::lease::words;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::{prompt, references};

pub async fn run(invocation: &Invocation<'_>, arguments: &Delete) -> Result<()> {
    let client = invocation.client().await?;
    // All are found before the first is deleted: a typing error deletes nothing.
    let mut environments: Vec<Environment> = Vec::new();
    for reference in &arguments.environments {
        let found = references::environment(&client, reference).await?;
        if environments.iter().all(|other| other.id != found.id) {
            environments.push(found);
        }
    }
    let names: Vec<&str> = environments.iter().map(|environment| environment.name.as_str()).collect();
    // An owner may; whoever acquired it is at least named.
    let acquired = |environment| words::holder(environment).filter(|held| !held.implicit);
    for (environment, held) in environments.iter().filter_map(|environment| Some((environment, acquired(environment)?))) {
        let who = words::named(&held.holder, held.note.as_deref());
        invocation.printer.warn(&format!("{} is held by {who}, who loses it", environment.name));
    }
    let question = format!("Delete {} and everything in {}?", names.join(", "), if names.len() == 1 { "it" } else { "them" });
    prompt::confirm(invocation.printer, &question, arguments.yes)?;
    for environment in environments {
        let last = client.delete_environment(environment.id).await?;
        invocation.printer.record(&last, &last.id.to_string(), |printer| {
            printer.note(&format!("deleted environment {} ({})", last.name, last.id));
            Ok(())
        })?;
    }
    Ok(())
}
