use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};
use stead_client::Client;
use stead_domain::checkpoint::{Checkpoint, CheckpointState, NewCheckpoint};

use super::{called, on_running};
use crate::arguments::checkpoint::Create;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

/// How often it looks whether it is on the disk.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub async fn run(invocation: &Invocation<'_>, arguments: &Create) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let seen = invocation.printer.is_human() && io::stderr().is_terminal();
    let wait = (arguments.no_wait || seen).then_some(CheckpointState::Sealed);
    let new = NewCheckpoint { name: arguments.name.clone(), on_running: on_running(&arguments.running), wait };
    let mut checkpoint = client.create_checkpoint(environment.id, &new).await?;
    if seen && !arguments.no_wait {
        checkpoint = watched(&client, checkpoint).await?;
    }
    invocation.printer.record(&checkpoint, &checkpoint.id.to_string(), |printer| {
        let state = match checkpoint.state {
            CheckpointState::Durable => "on the disk",
            CheckpointState::Sealed => "sealed, and not on the disk yet",
        };
        printer.note(&format!("checkpoint {} of {} is {state}", called(&checkpoint), environment.name));
        if let Some(message) = &checkpoint.message {
            printer.warn(message);
        }
        printer.hint(&format!("go back to it: stead checkpoint restore {} {}", environment.name, called(&checkpoint)));
        Ok(())
    })
}

/// Somebody looks on while it goes to the disk.
async fn watched(client: &Client, checkpoint: Checkpoint) -> Result<Checkpoint> {
    let bar = ProgressBar::new_spinner();
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    bar.set_message("sealed; what was written goes to the disk");
    let mut checkpoint = checkpoint;
    while checkpoint.state == CheckpointState::Sealed && checkpoint.message.is_none() {
        tokio::time::sleep(LOOK_EVERY).await;
        bar.tick();
        checkpoint = client.get_checkpoint(checkpoint.environment_id, checkpoint.id).await?;
    }
    bar.finish_and_clear();
    Ok(checkpoint)
}
