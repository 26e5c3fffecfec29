//! `stead project …`.

mod create;
mod delete;
mod list;
mod select;

use super::members;
use crate::arguments::project::ProjectCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: ProjectCommand) -> Result<()> {
    match command {
        ProjectCommand::List(arguments) => list::run(invocation, &arguments).await,
        ProjectCommand::Create(arguments) => create::run(invocation, &arguments).await,
        ProjectCommand::Select(arguments) => select::run(invocation, &arguments).await,
        ProjectCommand::Delete(arguments) => delete::run(invocation, &arguments).await,
        ProjectCommand::Members(command) => members::run(invocation, command).await,
    }
}
