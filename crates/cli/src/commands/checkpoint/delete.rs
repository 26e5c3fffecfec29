use serde_json::json;

use super::called;
use crate::arguments::checkpoint::Delete;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::{prompt, references};

pub async fn run(invocation: &Invocation<'_>, arguments: &Delete) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let mut found = Vec::new();
    for reference in &arguments.checkpoints {
        found.push(references::checkpoint(&client, environment.id, reference).await?);
    }
    let what = human::plural(found.len(), "checkpoint", "checkpoints");
    prompt::confirm(invocation.printer, &format!("Delete {what} of {}?", environment.name), arguments.yes)?;
    for checkpoint in &found {
        client.delete_checkpoint(environment.id, checkpoint.id).await?;
        if invocation.printer.is_human() {
            invocation.printer.note(&format!("deleted checkpoint {}", called(checkpoint)));
        }
    }
    let ids: Vec<String> = found.iter().map(|checkpoint| checkpoint.id.to_string()).collect();
    invocation.printer.record(&json!({ "deleted": ids }), &ids.join("\n"), |_| Ok(()))
}
