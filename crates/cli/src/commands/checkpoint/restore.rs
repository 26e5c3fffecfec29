use stead_domain::checkpoint::{OnRunning, RestoreRequest};

use super::meant;
use crate::arguments::checkpoint::Restore;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::{prompt, references};

pub async fn run(invocation: &Invocation<'_>, arguments: &Restore) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.which.reference.environment).await?;
    let (checkpoint, called) = meant(&client, &environment, &arguments.which.checkpoint).await?;
    if !arguments.save {
        let question = format!("Throw away what was written in {} since its last checkpoint, and end what runs?", environment.name);
        prompt::confirm(invocation.printer, &question, arguments.yes)?;
    }
    let request = RestoreRequest { on_running: arguments.unless_busy.then_some(OnRunning::Busy), save: arguments.save };
    let restored = client.restore_checkpoint(environment.id, checkpoint, &request).await?;
    invocation.printer.record(&restored, &restored.id.to_string(), |printer| {
        printer.note(&format!("environment {} has the files of checkpoint {}", restored.name, called));
        Ok(())
    })
}
