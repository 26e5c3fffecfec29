//! `stead checkpoint …` and `stead fork`.

mod create;
mod delete;
mod diff;
mod fork;
mod list;
mod restore;
mod tree;
mod view;

pub use fork::run as fork;
use stead_client::Client;
use stead_domain::checkpoint::{Checkpoint, OnRunning};
use stead_domain::environment::Environment;
use stead_domain::ids::CheckpointId;

use crate::arguments::checkpoint::{CheckpointCommand, Running};
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, command: CheckpointCommand) -> Result<()> {
    match command {
        CheckpointCommand::Create(arguments) => create::run(invocation, &arguments).await,
        CheckpointCommand::List(arguments) => list::run(invocation, &arguments).await,
        CheckpointCommand::View(arguments) => view::run(invocation, &arguments).await,
        CheckpointCommand::Diff(arguments) => diff::run(invocation, &arguments).await,
        CheckpointCommand::Restore(arguments) => restore::run(invocation, &arguments).await,
        CheckpointCommand::Delete(arguments) => delete::run(invocation, &arguments).await,
        CheckpointCommand::Tree(arguments) => tree::run(invocation, &arguments).await,
    }
}

/// The environment and the checkpoint that are meant.
async fn find(client: &Client, environment: &str, checkpoint: &str) -> Result<(Environment, Checkpoint)> {
    let environment = references::environment(client, environment).await?;
    let found = references::checkpoint(client, environment.id, checkpoint).await?;
    Ok((environment, found))
}

/// The id that is meant, and what people call it. A whole id may be one of another environment's.
async fn meant(client: &Client, environment: &Environment, checkpoint: &str) -> Result<(CheckpointId, String)> {
    if let Ok(id) = checkpoint.parse() {
        return Ok((id, checkpoint.to_owned()));
    }
    let found = references::checkpoint(client, environment.id, checkpoint).await?;
    Ok((found.id, called(&found)))
}

fn on_running(running: &Running) -> Option<OnRunning> {
    match (running.stop, running.freeze) {
        (true, _) => Some(OnRunning::Stop),
        (_, true) => Some(OnRunning::Freeze),
        _ => None,
    }
}

/// What people call it.
fn called(checkpoint: &Checkpoint) -> String {
    checkpoint.name.clone().unwrap_or_else(|| checkpoint.id.to_string())
}
