//! `stead sandbox …`.

mod create;
mod delete;
mod list;
mod view;

use crate::arguments::sandbox::SandboxCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: SandboxCommand) -> Result<()> {
    match command {
        SandboxCommand::List(arguments) => list::run(invocation, &arguments).await,
        SandboxCommand::View(arguments) => view::run(invocation, &arguments).await,
        SandboxCommand::Create(arguments) => create::run(invocation, &arguments).await,
        SandboxCommand::Delete(arguments) => delete::run(invocation, &arguments).await,
    }
}
